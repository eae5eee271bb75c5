#include "npubank/bank/books/entry.h"

#include "absl/algorithm/container.h"

namespace npubank {

bool Entry::CanComeBackWithoutCopy() const {
  return absl::c_all_of(owners, [](const Ownership& of) { return bool{of.way_back}; });
}

}  // namespace npubank

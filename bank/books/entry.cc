#include "npubank/bank/books/entry.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace npubank {

MemoryHints Entry::Hints() const {
  MemoryHints hints;
  for (const Ownership& of : owners) {
    hints.alignment = std::max(hints.alignment, of.hints.alignment);
    hints.pool = std::max(hints.pool, of.hints.pool);  // no two name different ones
  }
  return hints;
}

bool Entry::LiesAs(const MemoryHints& hints) const {
  if (state == Residency::kEvaluating) return flight->hints.Cover(hints);
  if (memory == nullptr) return true;  // nothing is there, or there is nothing
  return hints.MetBy(memory->address()) && (hints.pool == 0 || hints.pool == pool);
}

bool Entry::CanComeBackWithoutCopy() const {
  return absl::c_all_of(owners, [](const Ownership& of) { return bool{of.way_back}; });
}

}  // namespace npubank

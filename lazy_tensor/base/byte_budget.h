// ByteBudget: how many bytes a reader may still make of its input.
//
//   ByteBudget budget(file.size(), "parts, some of which are used more than once");
//   NPUBANK_RETURN_IF_ERROR(budget.Spend(name.size()));
//
// A file that passed every other check can still ask for more memory than the machine has:
// thousands of its tables may share one long text, and copying each would take a thousand times
// the file. So whoever copies out of a hostile file pays for each copy, before it is made.
// Errors: InvalidArgument, "more than <limit> bytes of <what>"; nothing is spent then.
// Threads: one.
#ifndef NPUBANK_LAZY_TENSOR_BASE_BYTE_BUDGET_H_
#define NPUBANK_LAZY_TENSOR_BASE_BYTE_BUDGET_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace npubank {

class ByteBudget {
 public:
  ByteBudget(uint64_t limit, std::string what)
      : limit_(limit), left_(limit), what_(std::move(what)) {}

  absl::Status Spend(uint64_t bytes) {
    if (bytes > left_) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", limit_, " bytes of ", what_));
    }
    left_ -= bytes;
    return absl::OkStatus();
  }
  uint64_t left() const { return left_; }

 private:
  uint64_t limit_;
  uint64_t left_;
  std::string what_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_BYTE_BUDGET_H_

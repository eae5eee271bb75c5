#include "npubank/compiler_stub/planner/ancestors.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace npubank {

absl::StatusOr<Ancestors> Ancestors::Of(const PlanGraph& graph, absl::Span<const int> makers) {
  const int64_t count = static_cast<int64_t>(graph.ops.size());
  if (count > kMaxParallelOps) {
    return absl::InvalidArgumentError(absl::StrCat("a parallel schedule is planned for at most ",
                                                   kMaxParallelOps, " operations, not ", count));
  }
  Ancestors ancestors;
  ancestors.words_ = (count + 63) / 64;
  ancestors.bits_.assign(count * ancestors.words_, 0);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t* row = &ancestors.bits_[i * ancestors.words_];
    for (int input : graph.ops[i].inputs) {
      const int64_t maker = makers[input];
      if (maker == kNoOp) continue;
      const uint64_t* inherited = &ancestors.bits_[maker * ancestors.words_];
      for (int64_t word = 0; word < ancestors.words_; ++word) row[word] |= inherited[word];
      row[maker / 64] |= uint64_t{1} << (maker % 64);
    }
  }
  return ancestors;
}

}  // namespace npubank

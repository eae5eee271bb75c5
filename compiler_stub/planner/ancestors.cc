#include "npubank/compiler_stub/planner/ancestors.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace npubank {

absl::StatusOr<Ancestors> Ancestors::Of(const PlanGraph& graph, absl::Span<const int> makers,
                                        TimeLimit* limit) {
  const int count = static_cast<int>(graph.ops.size());
  if (count > kMaxParallelOps) {
    return absl::InvalidArgumentError(absl::StrCat("a parallel schedule is planned for at most ",
                                                   kMaxParallelOps, " operations, not ", count));
  }
  Ancestors ancestors;
  ancestors.before_ = BitMatrix(count);
  for (int i = 0; i < count; ++i) {
    const auto work = static_cast<int64_t>(graph.ops[i].inputs.size()) * ancestors.before_.words();
    if (limit != nullptr && limit->Reached(work)) break;
    for (int input : graph.ops[i].inputs) {
      const int maker = makers[input];
      if (maker == kNoOp || ancestors.before_.Get(i, maker)) continue;
      ancestors.before_.OrRow(i, maker);
      ancestors.before_.Set(i, maker);
    }
  }
  return ancestors;
}

}  // namespace npubank

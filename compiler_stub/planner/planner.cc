#include "compiler_stub/planner/planner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler_stub/planner/conflicts.h"
#include "compiler_stub/planner/heuristics.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {

absl::StatusOr<Plan> PlanMemory(const Problem& problem, const PlanOptions&) {
  NPUBANK_RETURN_IF_ERROR(CheckProblem(problem));
  Plan plan;
  if (problem.buffers.empty()) {
    plan.proven = true;
    return plan;
  }
  plan.lower_bound = LiveLowerBound(problem);
  const int64_t enough = std::max(plan.lower_bound, problem.capacity.value_or(0));
  NamedLayout best = BestHeuristic(problem, FindConflicts(problem), enough);
  plan.offsets = std::move(best.layout.offsets);
  plan.bytes = best.layout.bytes;
  plan.method = std::move(best.name);
  plan.proven = plan.bytes == plan.lower_bound;
  if (problem.capacity.has_value() && plan.bytes > *problem.capacity) {
    return absl::ResourceExhaustedError(absl::StrCat("no plan within ", *problem.capacity,
                                                     " bytes found; ", plan.bytes, " are enough"));
  }
  return plan;
}

}  // namespace npubank

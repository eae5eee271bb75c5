// PlanView: the memory plan that a blob carries, as the planner's structures: for pictures and
// reports.
//
//   NPUBANK_ASSIGN_OR_RETURN(SubmodelBlob blob, ReadSubmodelBlob(bytes));
//   PlanView view = ViewPlan(blob);
//   Validate(view.problem, view.offsets);      // planner/validator.h: the plan is right
//   view.bytes, view.lower_bound, view.sum_of_values;
//
// A view is read from the blob alone, not remembered from compiling, so it shows what will run.
// Buffers are values that lie on each other one after the other; time counts operations, through
// all calls in order for a submodel; a buffer's kind is that of the operation that makes it
// ("matmul"), and `values` names what it holds. `lower_bound` is what must be alive at the busiest
// moment with this sharing. Cost: O(n log n) in values of all calls. Threads: pure.
#ifndef NPUBANK_COMPILER_STUB_VIEWS_PLAN_VIEW_H_
#define NPUBANK_COMPILER_STUB_VIEWS_PLAN_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

struct PlanView {
  std::string name;
  Problem problem;
  std::vector<uint64_t> offsets;  // one per buffer
  uint64_t bytes = 0;             // the block: a function's scratch, a submodel's arena
  uint64_t lower_bound = 0;
  uint64_t sum_of_values = 0;  // every value in memory of its own, heads mixed into one value once
  int64_t operations = 0;      // the time axis
};

// The scratch of one function; values in arguments are not in it.
PlanView ViewPlan(const Function& function);
// The arena: what passes between calls, and every call's scratch.
PlanView ViewPlan(const SubmodelBlob& blob);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_VIEWS_PLAN_VIEW_H_

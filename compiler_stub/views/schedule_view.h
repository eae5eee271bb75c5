// ViewSchedules: what a function's or a submodel's memory plan would be under either schedule, and
// what it costs in time: for reports.
//
//   NPUBANK_ASSIGN_OR_RETURN(Schedules s, ViewSchedules(function));
//   s.serial.bytes, s.parallel.bytes;   // scratch, planned anew from the function's operations
//   s.path_as_planned;                  // s.parallel.path: this plan costs no parallelism
//
// Read from the blob alone, like a PlanView. A path is the longest chain of operations that must
// run one after the other. `path_as_planned` counts every order that sharing memory adds, found by
// comparing the places that each pair of operations reads and writes: it shares no code with the
// planner, so it shows whether a parallel plan kept what it promised.
//
// A submodel's calls share one scratch, so they run one after the other: its paths are the sums of
// its calls'. Cost: quadratic in a function's operations. Threads: pure. Errors: InvalidArgument
// for a function of more than some 16,000 operations.
#ifndef NPUBANK_COMPILER_STUB_VIEWS_SCHEDULE_VIEW_H_
#define NPUBANK_COMPILER_STUB_VIEWS_SCHEDULE_VIEW_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/planner/graph.h"

namespace npubank {

struct Schedules {
  struct Cost {
    uint64_t bytes = 0;        // of the block: a function's scratch, a submodel's arena
    uint64_t lower_bound = 0;  // of such a block
    int64_t path = 0;          // operations
  };
  Cost serial;    // in order: the path is all operations
  Cost parallel;  // any order that the values allow
  int64_t path_as_planned = 0;
};

absl::StatusOr<Schedules> ViewSchedules(const Function& function);
absl::StatusOr<Schedules> ViewSchedules(const SubmodelBlob& blob);

// As the planner sees them. Value numbers are kept; what is not in the block is external.
PlanGraph FunctionGraph(const Function& function);
PlanGraph CallGraph(const SubmodelBlob& blob);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_VIEWS_SCHEDULE_VIEW_H_

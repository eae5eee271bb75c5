// Plan: a place for every buffer of a problem, and how good that is.
//
//   arena = Allocate(plan.bytes);  buffer i lies at arena + plan.offsets[i]
//
// planner.h makes it, validator.h proves it, files/svg.h draws it. A value.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_PLAN_H_
#define NPUBANK_COMPILER_STUB_PLANNER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace npubank {

struct Plan {
  std::vector<uint64_t> offsets;  // one per buffer
  uint64_t bytes = 0;             // the size of the block
  uint64_t lower_bound = 0;       // no plan can be smaller
  bool proven = false;            // there is no smaller plan
  bool timed_out = false;         // time_limit cut planning short: elsewhere the plan may differ
  std::string method;             // what found it: "size best fit", "search", ...
  int64_t steps = 0;              // of the exact search
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_PLAN_H_

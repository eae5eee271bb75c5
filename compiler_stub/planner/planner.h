// PlanMemory: a place in one block for every buffer, in as few bytes as can be found.
//
//   NPUBANK_ASSIGN_OR_RETURN(Plan plan, PlanMemory(problem, PlanOptions()));
//   arena = Allocate(plan.bytes);  value i lies at arena + plan.offsets[i]
//
// How: several orders of placing, each buffer into the gap that fits it best (heuristics.h); if the
// best of them is above the lower bound, a bounded exact search (search.h) looks for something
// smaller.
//
// With a capacity in the problem the search stops at the first plan that fits. Without, it looks
// for the smallest, and `proven` says whether nothing smaller exists.
//
// Deterministic: equal problems and options give equal plans on every machine. The search is
// limited by a count of steps; `time_limit` is only there so that nobody waits for ever, and a plan
// that it cut short says so in `timed_out`.
//
// Cost: graphs of thousands of values take milliseconds, because the heuristics reach the bound. A
// hard problem takes as long as the step limit allows, and the default keeps that under a second
// on one core: the problems of MiniMalloc take 1 to 9 microseconds per step.
// Threads: pure. Errors: InvalidArgument for a problem that CheckProblem refuses; ResourceExhausted
// when no plan within the capacity was found; the message says whether there is none or whether the
// search gave up, and which size would have been possible.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_PLANNER_H_
#define NPUBANK_COMPILER_STUB_PLANNER_PLANNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

// Within a capacity the search has one thing to find, and the hardest published problem takes
// 217,000 steps. Looking for the smallest plan proves size after size impossible, step by costly
// step, and gains per cents: it ends sooner.
inline constexpr int64_t kStepsToFit = 400'000;
inline constexpr int64_t kStepsToMinimise = 80'000;

struct PlanOptions {
  // Of the exact search; 0: heuristics only. nullopt: one of the above.
  std::optional<int64_t> step_limit = std::nullopt;
  absl::Duration time_limit = absl::Seconds(60);
};

struct Plan {
  std::vector<int64_t> offsets;  // one per buffer
  int64_t bytes = 0;             // the size of the block
  int64_t lower_bound = 0;       // no plan can be smaller
  bool proven = false;           // there is no smaller plan
  bool timed_out = false;        // time_limit ended the search: elsewhere the plan may differ
  std::string method;            // what found it: "size best fit", "search", ...
  int64_t steps = 0;             // of the exact search
};

absl::StatusOr<Plan> PlanMemory(const Problem& problem, const PlanOptions& options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_PLANNER_H_

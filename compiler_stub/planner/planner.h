// PlanMemory: a place in one block for every buffer, in as few bytes as can be found.
//
//   NPUBANK_ASSIGN_OR_RETURN(Plan plan, PlanMemory(problem, PlanOptions()));
//   arena = Allocate(plan.bytes);  value i lies at arena + plan.offsets[i]
//
// The same of a graph, whose values share buffers where one may be written over the other:
//
//   NPUBANK_ASSIGN_OR_RETURN(GraphPlan plan,
//                            PlanGraphMemory(graph, LifetimeOptions(), PlanOptions()));
//   arena + *plan.PlaceOf(v);  // where value v lies; std::nullopt for external values
//
// How: several orders of placing, each buffer into the gap that fits it best (heuristics.h); if the
// best of them is above the lower bound, a bounded exact search (search.h) looks for something
// smaller.
//
// With a capacity in the problem the search stops at the first plan that fits. Without, it looks
// for the smallest, and `proven` says whether nothing smaller exists.
//
// Deterministic: equal problems and options give equal plans on every machine. The search is limited
// by a count of steps, the heuristics by one of looks; `time_limit` is only there so that nobody
// waits forever. It holds for every stage, and what it cut short is the best that was found by
// then, which `timed_out` says. Below it only what takes no time to speak of is always done: a
// layout that goes through time once.
//
// Cost: graphs of thousands of values take milliseconds, because the heuristics reach the bound. A
// hard problem takes as long as the step limit allows, and the default keeps that under a second on
// one core: the problems of MiniMalloc take 1 to 9 microseconds per step. Ten thousand random lives
// take a few seconds; from fifty thousand on one sweep through time is all there is, and a million
// take a few seconds again. Memory: linear, and a bit for each pair of buffers of a part that is
// searched or that has parallel pairs.
// Threads: pure. Errors: InvalidArgument for a problem that CheckProblem refuses; Cancelled;
// ResourceExhausted when no plan within the capacity was found: the message says what the planner
// can plan, which as a capacity it will accept, and what it is sure cannot be gone below. Of a graph
// those of FindLifetimes as well.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_PLANNER_H_
#define NPUBANK_COMPILER_STUB_PLANNER_PLANNER_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "npubank/compiler_stub/planner/graph.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/plan.h"
#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/time_limit.h"

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
  // Asked every few milliseconds, from the thread that plans; true ends planning with Cancelled.
  // Null: never.
  std::function<bool()> cancelled = nullptr;
};

absl::StatusOr<Plan> PlanMemory(const Problem& problem, const PlanOptions& options);

// The same, within a limit that is shared with what was done before.
absl::StatusOr<Plan> PlanMemory(const Problem& problem, std::optional<int64_t> step_limit,
                                TimeLimit& limit);

struct GraphPlan {
  Lifetimes lifetimes;
  Plan plan;

  // The value's offset in the arena.
  std::optional<uint64_t> PlaceOf(int value) const {
    const int buffer = lifetimes.buffer_of[value];
    if (buffer == kNoBuffer) return std::nullopt;
    return plan.offsets[buffer] + lifetimes.offset_in_buffer[value];
  }
};

// FindLifetimes, PlanMemory, Validate, the first two within one time limit.
absl::StatusOr<GraphPlan> PlanGraphMemory(const PlanGraph& graph, const LifetimeOptions& options,
                                          const PlanOptions& plan_options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_PLANNER_H_

// SweepByBirth: the plan that can always be had. Goes through time once: a buffer that begins takes
// the free gap that fits it best, one that ends gives its bytes back, as an allocator would. For
// this room.
//
//   time ->   |a a a a|          b ended: its gap, the smallest that is large enough, goes to d
//             |b b|d d d|
//             |c c c c c c|
//
// The layout is the one of heuristics.h for the order of birth and the best fit, without looking at
// every pair: O(n log n) where gaps differ in size, memory O(n). Parallel pairs are not looked at:
// `problem` has none.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SWEEP_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SWEEP_H_

#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/search/heuristics.h"

namespace npubank {

Layout SweepByBirth(const Problem& problem);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SWEEP_H_

// Conflicts: which buffers must not overlap in memory. Told from their lives and the parallel pairs
// whenever it is asked: nothing is kept pair by pair. For this room only.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_CONFLICTS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_CONFLICTS_H_

#include <vector>

#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

inline bool LiveTogether(const Buffer& a, const Buffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

// Whether `a` and `b`, two buffers of more than 0 bytes, live at the same time or may run in
// parallel.
inline bool Conflict(const Problem& problem, int a, int b) {
  return LiveTogether(problem.buffers[a], problem.buffers[b]) || problem.parallel.Contains(a, b);
}

// The buffers of more than 0 bytes, in parts between which there are no conflicts: they can be
// planned apart, and the largest of their plans is the plan's size. Each part ascending, the one with
// the lowest number first. O(n log n + parallel pairs).
std::vector<std::vector<int>> IndependentParts(const Problem& problem);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_CONFLICTS_H_

// Conflicts: which buffers must not overlap in memory, as lists of neighbours. For this room only.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_CONFLICTS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_CONFLICTS_H_

#include <vector>

#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

using Conflicts = std::vector<std::vector<int>>;

// For each buffer the others that live at the same time or may run in parallel, ascending. Buffers
// of size 0 are in nobody's way and have no neighbours. O(n log n + pairs).
Conflicts FindConflicts(const Problem& problem);

// The connected parts of the conflict graph, each ascending: they can be planned apart, and the
// largest of their plans is the plan's size.
std::vector<std::vector<int>> IndependentParts(const Conflicts& conflicts);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_CONFLICTS_H_

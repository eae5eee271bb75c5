// Heuristics: quick plans. Each places the buffers one after the other, never moving one again;
// they differ in the order and in which free gap a buffer takes. For this room; callers use
// planner.h.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_HEURISTICS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_HEURISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"

namespace npubank {

enum class Fit {
  kBest,   // the smallest gap that is large enough, else on top
  kFirst,  // the lowest gap that is large enough
};

struct Layout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // where the highest buffer ends
};

// Places `order` (each buffer once) in turn. O(sum over buffers of neighbours * log neighbours).
Layout PlaceInOrder(const Problem& problem, const Conflicts& conflicts, absl::Span<const int> order,
                    Fit fit);

// The largest buffer first, best fit: the plan that most runtimes use. The yardstick in reports.
Layout GreedyBySize(const Problem& problem, const Conflicts& conflicts);

struct NamedLayout {
  std::string name;
  Layout layout;
};

// Tries every order with every fit; ends at the first that needs no more than `enough`, else
// returns the smallest, the earlier of equals.
NamedLayout BestHeuristic(const Problem& problem, const Conflicts& conflicts, int64_t enough);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_HEURISTICS_H_

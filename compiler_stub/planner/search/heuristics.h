// Heuristics: quick plans. Each places the buffers one after the other, never moving one again;
// they differ in the order and in which free gap a buffer takes. For this room; callers use
// planner.h. Buffers of 0 bytes are in nobody's way: only GreedyBySize takes problems with any.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_HEURISTICS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_HEURISTICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/time_limit.h"

namespace npubank {

enum class Fit {
  kBest,   // the smallest gap that is large enough, else on top
  kFirst,  // the lowest gap that is large enough
};

struct Layout {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;  // where the highest buffer ends
};

// Places `order` (each buffer once) in turn; nullopt when the limit was reached before the last.
// Looks, for each buffer, at every one placed before: O(n^2), memory O(n).
std::optional<Layout> PlaceInOrder(const Problem& problem, absl::Span<const int> order, Fit fit,
                                   TimeLimit& limit);

// By birth, then the largest first.
std::vector<int> OrderOfBirth(const Problem& problem);

// The largest buffer first, best fit: the plan that most runtimes use. The yardstick in reports.
Layout GreedyBySize(const Problem& problem);

struct NamedLayout {
  std::string name;
  Layout layout;
};

// Tries every order with every fit; ends at the first that needs no more than `enough`, else
// returns the smallest, the earlier of equals. An order that could look more often than `looks` has
// left is left out, so that planning many buffers ends soon on any machine; where an order is left
// out or the limit cut one short, a layout that takes no time is there in the end.
NamedLayout BestHeuristic(const Problem& problem, uint64_t enough, int64_t* looks, TimeLimit& limit);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_HEURISTICS_H_

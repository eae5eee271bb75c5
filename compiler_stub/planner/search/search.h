// FindLayout: an exact search for a layout within a capacity. For this room; callers use planner.h.
//
// The idea of canonical solutions (M. D. Moffitt, "MiniMalloc", ASPLOS 2023): if a layout exists,
// one exists in which no buffer can move to a lower place, so only such layouts are looked at. They
// are grown from the bottom. Every buffer that has no place yet has a floor, the lowest offset that
// what is placed leaves it. The search takes the buffer with the lowest floor and decides: it lies
// on its floor, or it does not.
//
//   place  its neighbours' floors rise to its top. (They cannot be below: their floors were not
//   lower.) defer  in the final layout something else must keep it from its floor: a neighbour
//   without a place
//          yet, which begins below the deferred buffer's top would have been, and which it lies
//          above. So its floor rises to the lowest top that such a blocker can have; and when no
//          possible blocker is left, this branch is dead. If there is none to begin with, placing
//          needs no decision.
//
// A branch is dead also when some section (search_space.h) cannot be piled up within the capacity:
// taken by rising floor, each member of the pile starts at its floor or on the one before. When no
// item reaches across some moment any more, what lies before and after is searched apart, so that
// failing in one does not try again everything in the other.
//
// Each layout is met once at most, and the order of preference decides only which first. Some
// orders are lucky, and which is not known before: the search starts again with the next and, after
// the last, with twice the steps.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"

namespace npubank {

struct SearchLimits {
  int64_t steps = 0;  // buffers placed
  absl::Time deadline = absl::InfiniteFuture();
};

enum class SearchEnd {
  kFound,
  kNone,  // there is no layout: proven
  kSteps,
  kDeadline,
};

struct SearchResult {
  SearchEnd end = SearchEnd::kSteps;
  std::vector<int64_t> offsets;  // kFound: in bytes, one per buffer
  int64_t steps = 0;
};

// The search calls itself for each decision on the way: parts above this size would need too deep a
// stack, and are beyond any exact search.
inline constexpr int kMaxSearchBuffers = 4096;

// `problem` has 1 to kMaxSearchBuffers buffers; its own capacity is not looked at.
SearchResult FindLayout(const Problem& problem, const Conflicts& conflicts, int64_t capacity,
                        const SearchLimits& limits);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_H_

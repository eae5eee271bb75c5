// FindLayout: an exact search for a layout within a capacity. For this room; callers use planner.h.
//
// The idea of canonical solutions (M. D. Moffitt, "MiniMalloc", ASPLOS 2023): if a layout exists,
// one exists in which no buffer can move to a lower place, so only such layouts are looked at. They
// are grown from the bottom. Every buffer that has no place yet has a floor, the lowest offset that
// what is placed leaves it. The search takes the buffer with the lowest floor and decides: it lies
// on its floor, or it does not.
//
// - place: its neighbours' floors rise to its top. (They cannot be below: their floors were not
//   lower.)
// - defer: in the final layout something else must keep it from its floor: a neighbour without a
//   place yet, which begins below where the deferred buffer's top would have been, and on which it
//   lies. So its floor rises to the lowest top that such a blocker can have; and when no possible
//   blocker is left, this branch is dead. If there is none to begin with, placing needs no decision.
//
// Sections and partitions, for buffers a to g (time runs to the right):
//
//      a |======|                     A section is a moment whose live buffers are not all alive at
//      b |===|                        another's: here s0 {a b}, s1 {a c}, s2 {c d}, s3 {e f}, s4 {f g}.
//      c     |======|                 What a section holds must lie in a pile.
//      d        |===|
//      e             |==|             Nothing reaches across '!': what lies before and after are
//      f             |======|         partitions, searched apart, so that failing in one does not
//      g                |===|         try again everything in the other. Placing a buffer that does
//         s0  s1 s2 ! s3  s4          reach across makes such a border, as soon as it was the last.
//
// A branch is dead also when some section cannot be piled up within the capacity: taken by rising
// floor, each member of the pile starts at its floor or on the one before.
//
// Each layout is met once at most, and the order of preference decides only which first. Some
// orders are lucky, and which is not known before: the search starts again with the next and, after
// the last, with twice the steps.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/time_limit.h"

namespace npubank {

struct SearchLimits {
  int64_t steps = 0;  // buffers placed
  TimeLimit* time = nullptr;
};

enum class SearchEnd {
  kFound,
  kNone,  // there is no layout: proven
  kSteps,
  kTime,
};

struct SearchResult {
  SearchEnd end = SearchEnd::kSteps;
  std::vector<uint64_t> offsets;  // kFound: in bytes, one per buffer
  int64_t steps = 0;
};

// The search calls itself for each decision on the way: parts above this size would need too deep a
// stack, and are beyond any exact search.
inline constexpr int kMaxSearchBuffers = 4096;

// `problem` has 1 to kMaxSearchBuffers buffers; its own capacity is not looked at.
// Memory: its square in bits, and every section's members.
SearchResult FindLayout(const Problem& problem, uint64_t capacity, const SearchLimits& limits);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_H_

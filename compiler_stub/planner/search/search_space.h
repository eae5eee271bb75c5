// SearchSpace: a problem as the exact search wants it: in an order of preference, in the largest unit
// that measures every size, with the moments that matter. For this room.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_SPACE_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_SPACE_H_

#include <cstdint>
#include <vector>

#include "npubank/compiler_stub/planner/bit_matrix.h"
#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

// What an order of preference looks at, the most important first, each largest first.
enum class Measure {
  kPressure,  // the bytes alive at the busiest moment of the buffer's life
  kLife,
  kArea,  // size times life
  kSize,
};
using Preference = std::vector<Measure>;

struct SearchSpace {
  struct Item {
    int buffer = 0;          // its number in the problem
    uint64_t size = 0;       // in units
    uint64_t alignment = 1;  // in units
    // The sections it is alive in, and those that it or a neighbour is alive in.
    int first_section = 0;
    int end_section = 0;
    int reach_first = 0;
    int reach_end = 0;
  };
  uint64_t unit = 1;        // bytes
  std::vector<Item> items;  // the preferred one first
  BitMatrix neighbours;     // items that must not overlap
  // A section is a moment at which the set of live items is not part of another moment's: by
  // increasing time. Any two items of a section are neighbours, so a section's items lie in a pile.
  std::vector<std::vector<int>> sections;
};

// The largest unit in which all sizes and all alignments can be counted, at least 1. Every offset
// of a plan in which no buffer can move down is a multiple of it, and so is the plan's size.
uint64_t FindUnit(const Problem& problem);

// `problem` is not empty.
SearchSpace MakeSearchSpace(const Problem& problem, const Preference& preference);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_SEARCH_SPACE_H_

#include "npubank/compiler_stub/planner/search/search_space.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"

namespace npubank {
namespace {

// The live buffers at each moment at which that set is not contained in another moment's. Such a
// moment is one at which a buffer begins and before another begins, some buffer ends.
std::vector<std::vector<int>> FindSections(const Problem& problem) {
  std::vector<int> by_birth(problem.buffers.size());
  std::iota(by_birth.begin(), by_birth.end(), 0);
  std::sort(by_birth.begin(), by_birth.end(),
            [&](int a, int b) { return problem.buffers[a].lower < problem.buffers[b].lower; });
  std::vector<std::vector<int>> sections;
  std::vector<int> alive;
  for (int buffer : by_birth) {
    const int64_t now = problem.buffers[buffer].lower;
    const auto dead = [&](int other) { return problem.buffers[other].upper <= now; };
    if (std::any_of(alive.begin(), alive.end(), dead)) {
      // Something was born since the last section: sets between deaths only grow.
      sections.push_back(alive);
      alive.erase(std::remove_if(alive.begin(), alive.end(), dead), alive.end());
    }
    alive.push_back(buffer);
  }
  sections.push_back(alive);
  return sections;
}

std::vector<uint64_t> Measured(const Problem& problem, absl::Span<const std::vector<int>> sections,
                              Measure measure) {
  std::vector<uint64_t> values(problem.buffers.size(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const auto life = static_cast<uint64_t>(buffer.upper - buffer.lower);
    if (measure == Measure::kLife) values[i] = life;
    if (measure == Measure::kSize) values[i] = buffer.size;
    // Only an order is wanted: a product too large for 64 bits need not be exact.
    if (measure == Measure::kArea && __builtin_mul_overflow(buffer.size, life, &values[i])) {
      values[i] = UINT64_MAX;
    }
  }
  if (measure != Measure::kPressure) return values;
  for (const std::vector<int>& section : sections) {
    uint64_t sum = 0;
    for (int i : section) sum += problem.buffers[i].size;
    for (int i : section) values[i] = std::max(values[i], sum);
  }
  return values;
}

std::vector<int> Sorted(const Problem& problem, absl::Span<const std::vector<int>> sections,
                        const Preference& preference) {
  std::vector<std::vector<uint64_t>> keys;
  for (Measure measure : preference) keys.push_back(Measured(problem, sections, measure));
  std::vector<int> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    for (const std::vector<uint64_t>& key : keys) {
      if (key[a] != key[b]) return key[a] > key[b];
    }
    return a < b;
  });
  return order;
}

// Where items begin and end, from the sections; and how far neighbours reach.
void FillSections(SearchSpace* space) {
  for (int s = 0; s < static_cast<int>(space->sections.size()); ++s) {
    for (int i : space->sections[s]) {
      SearchSpace::Item& item = space->items[i];
      if (item.end_section == 0) item.first_section = s;
      item.end_section = s + 1;
    }
  }
  for (int i = 0; i < static_cast<int>(space->items.size()); ++i) {
    SearchSpace::Item& item = space->items[i];
    item.reach_first = item.first_section;
    item.reach_end = item.end_section;
    space->neighbours.ForEach(i, [&](int other) {
      const SearchSpace::Item& neighbour = space->items[other];
      // Neighbours in time share a section; only parallel ones reach farther.
      if (neighbour.first_section < item.end_section &&
          item.first_section < neighbour.end_section) {
        return;
      }
      item.reach_first = std::min(item.reach_first, neighbour.first_section);
      item.reach_end = std::max(item.reach_end, neighbour.end_section);
    });
  }
}

}  // namespace

uint64_t FindUnit(const Problem& problem) {
  uint64_t unit = 0;
  uint64_t alignment = 1;
  for (const Buffer& buffer : problem.buffers) {
    unit = std::gcd(unit, buffer.size);
    alignment = std::max(alignment, buffer.alignment);
  }
  if (unit == 0) return 1;
  return unit % alignment == 0 ? unit : std::gcd(unit, alignment);
}

SearchSpace MakeSearchSpace(const Problem& problem, const Preference& preference) {
  SearchSpace space;
  space.unit = FindUnit(problem);
  space.sections = FindSections(problem);
  std::vector<int> item_of(problem.buffers.size());
  for (int buffer : Sorted(problem, space.sections, preference)) {
    item_of[buffer] = static_cast<int>(space.items.size());
    SearchSpace::Item item;
    item.buffer = buffer;
    item.size = problem.buffers[buffer].size / space.unit;
    item.alignment = std::max<uint64_t>(1, problem.buffers[buffer].alignment / space.unit);
    space.items.push_back(std::move(item));
  }
  const int count = static_cast<int>(space.items.size());
  space.neighbours = BitMatrix(count);
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < i; ++j) {
      if (!Conflict(problem, space.items[i].buffer, space.items[j].buffer)) continue;
      space.neighbours.Set(i, j);
      space.neighbours.Set(j, i);
    }
  }
  for (std::vector<int>& section : space.sections) {
    for (int& member : section) member = item_of[member];
  }
  FillSections(&space);
  return space;
}

}  // namespace npubank

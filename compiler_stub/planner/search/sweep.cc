#include "npubank/compiler_stub/planner/search/sweep.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/align.h"

namespace npubank {
namespace {

// The free bytes of a block that grows as it must.
class FreeGaps {
 public:
  // Takes the gap that leaves least room behind the buffer, the lowest of equals; else on top.
  uint64_t Take(uint64_t size, uint64_t alignment) {
    std::optional<uint64_t> place;
    uint64_t best_room = 0;
    for (auto gap = by_length_.lower_bound({size, 0}); gap != by_length_.end(); ++gap) {
      const auto [length, begin] = *gap;
      if (place.has_value() && length > best_room + (alignment - 1)) break;  // aligned, still more
      const uint64_t start = AlignUp(begin, alignment);
      if (start > begin + length - size) continue;
      const uint64_t room = begin + length - start;
      if (place.has_value() && std::pair(best_room, *place) <= std::pair(room, start)) continue;
      place = start;
      best_room = room;
    }
    if (!place.has_value()) return TakeOnTop(size, alignment);
    const auto gap = std::prev(ends_.upper_bound(*place));
    const auto [begin, end] = *gap;
    Erase(begin, end);
    if (begin < *place) Insert(begin, *place);
    if (*place + size < end) Insert(*place + size, end);
    return *place;
  }

  void Give(uint64_t begin, uint64_t end) {
    const auto after = ends_.find(end);
    if (after != ends_.end()) {
      end = after->second;
      Erase(after->first, end);
    }
    const auto next = ends_.lower_bound(begin);
    if (next != ends_.begin() && std::prev(next)->second == begin) {
      const auto [before, at] = *std::prev(next);
      Erase(before, at);
      begin = before;
    }
    if (end == top_) {
      top_ = begin;
    } else {
      Insert(begin, end);
    }
  }

 private:
  uint64_t TakeOnTop(uint64_t size, uint64_t alignment) {
    const uint64_t place = AlignUp(top_, alignment);
    if (place > top_) Insert(top_, place);
    top_ = place + size;
    return place;
  }

  void Insert(uint64_t begin, uint64_t end) {
    ends_[begin] = end;
    by_length_.emplace(end - begin, begin);
  }
  void Erase(uint64_t begin, uint64_t end) {
    ends_.erase(begin);
    by_length_.erase({end - begin, begin});
  }

  uint64_t top_ = 0;                   // everything from here on is free
  std::map<uint64_t, uint64_t> ends_;  // of the gaps below, by where they begin
  std::set<std::pair<uint64_t, uint64_t>> by_length_;
};

}  // namespace

Layout SweepByBirth(const Problem& problem) {
  const std::vector<Buffer>& buffers = problem.buffers;
  const std::vector<int> births = OrderOfBirth(problem);
  std::vector<int> deaths = births;
  std::sort(deaths.begin(), deaths.end(),
            [&](int a, int b) { return buffers[a].upper < buffers[b].upper; });
  Layout layout;
  layout.offsets.assign(buffers.size(), 0);
  FreeGaps gaps;
  size_t dead = 0;
  for (int born : births) {
    for (; buffers[deaths[dead]].upper <= buffers[born].lower; ++dead) {
      const uint64_t begin = layout.offsets[deaths[dead]];
      gaps.Give(begin, begin + buffers[deaths[dead]].size);
    }
    layout.offsets[born] = gaps.Take(buffers[born].size, buffers[born].alignment);
    layout.bytes = std::max(layout.bytes, layout.offsets[born] + buffers[born].size);
  }
  return layout;
}

}  // namespace npubank

#include "npubank/compiler_stub/planner/search/sweep.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
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
  int64_t Take(int64_t size, int64_t alignment) {
    int64_t place = -1;
    int64_t best_room = 0;
    for (auto gap = by_length_.lower_bound({size, 0}); gap != by_length_.end(); ++gap) {
      const auto [length, begin] = *gap;
      if (place >= 0 && length - (alignment - 1) > best_room) break;  // aligned, still more room
      const int64_t start = AlignUp(begin, alignment);
      const int64_t room = begin + length - start;
      if (room < size) continue;
      if (place >= 0 && std::pair(best_room, place) <= std::pair(room, start)) continue;
      place = start;
      best_room = room;
    }
    if (place < 0) return TakeOnTop(size, alignment);
    const auto gap = std::prev(ends_.upper_bound(place));
    const auto [begin, end] = *gap;
    Erase(begin, end);
    if (begin < place) Insert(begin, place);
    if (place + size < end) Insert(place + size, end);
    return place;
  }

  void Give(int64_t begin, int64_t end) {
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
  int64_t TakeOnTop(int64_t size, int64_t alignment) {
    const int64_t place = AlignUp(top_, alignment);
    if (place > top_) Insert(top_, place);
    top_ = place + size;
    return place;
  }

  void Insert(int64_t begin, int64_t end) {
    ends_[begin] = end;
    by_length_.emplace(end - begin, begin);
  }
  void Erase(int64_t begin, int64_t end) {
    ends_.erase(begin);
    by_length_.erase({end - begin, begin});
  }

  int64_t top_ = 0;                  // everything from here on is free
  std::map<int64_t, int64_t> ends_;  // of the gaps below, by where they begin
  std::set<std::pair<int64_t, int64_t>> by_length_;
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
      const int64_t begin = layout.offsets[deaths[dead]];
      gaps.Give(begin, begin + buffers[deaths[dead]].size);
    }
    layout.offsets[born] = gaps.Take(buffers[born].size, buffers[born].alignment);
    layout.bytes = std::max(layout.bytes, layout.offsets[born] + buffers[born].size);
  }
  return layout;
}

}  // namespace npubank

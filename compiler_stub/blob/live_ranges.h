// LiveRanges: which bytes of which memory are in use, each range by one value. For the checkers of
// plans.
//
//   LiveRanges live;
//   live.Hold({room, 0, 4096}, 7);               // value 7 is there from now on
//   live.FindOverlap({room, 64, 128});           // 7
//   live.Drop({room, 0, 4096}, 7);
//
// A room is a memory of its own: the arena, the scratch area, an argument. What is held never
// overlaps. Cost: O(log n) each. Threads: none of its own.
#ifndef NPUBANK_COMPILER_STUB_BLOB_LIVE_RANGES_H_
#define NPUBANK_COMPILER_STUB_BLOB_LIVE_RANGES_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace npubank {

struct MemoryRange {
  uint64_t room = 0;
  uint64_t begin = 0;
  uint64_t end = 0;  // after the last byte; begin < end
  friend bool operator==(const MemoryRange& a, const MemoryRange& b) {
    return a.room == b.room && a.begin == b.begin && a.end == b.end;
  }
};

class LiveRanges {
 public:
  // A value that holds a part of `range`.
  std::optional<uint32_t> FindOverlap(const MemoryRange& range) const {
    // Of those that begin before the range's end, the last reaches furthest.
    auto next = held_.lower_bound({range.room, range.end});
    if (next == held_.begin()) return std::nullopt;
    const auto& [place, held] = *std::prev(next);
    if (place.first != range.room || held.end <= range.begin) return std::nullopt;
    return held.value;
  }

  // False, and nothing is held, when the range overlaps one that is.
  bool Hold(const MemoryRange& range, uint32_t value) {
    if (FindOverlap(range).has_value()) return false;
    held_[{range.room, range.begin}] = {range.end, value};
    return true;
  }

  // No more than forgetting: a range that `value` does not hold stays as it is.
  void Drop(const MemoryRange& range, uint32_t value) {
    auto held = held_.find({range.room, range.begin});
    if (held != held_.end() && held->second.value == value) held_.erase(held);
  }

 private:
  struct Held {
    uint64_t end = 0;
    uint32_t value = 0;
  };
  std::map<std::pair<uint64_t, uint64_t>, Held> held_;  // by room and begin
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_LIVE_RANGES_H_

#include "npubank/runtime/memory/strategies/best_fit.h"

#include <cassert>
#include <iterator>

namespace npubank {

void BestFit::AddHole(uint64_t slab, uint64_t offset, uint64_t bytes) {
  holes_.emplace(std::make_pair(slab, offset), bytes);
  by_size_.emplace(bytes, slab, offset);
}

void BestFit::RemoveHole(Holes::iterator hole) {
  by_size_.erase({hole->second, hole->first.first, hole->first.second});
  holes_.erase(hole);
}

void BestFit::AddSlab(uint64_t slab, uint64_t bytes) {
  assert(bytes > 0);
  [[maybe_unused]] const bool added = slabs_.emplace(slab, bytes).second;
  assert(added);
  slab_bytes_ += bytes;
  free_bytes_ += bytes;
  AddHole(slab, 0, bytes);
}

void BestFit::RemoveSlab(uint64_t slab) {
  const auto found = slabs_.find(slab);
  const auto hole = holes_.find({slab, 0});
  assert(found != slabs_.end() && hole != holes_.end() && hole->second == found->second);
  slab_bytes_ -= found->second;
  free_bytes_ -= found->second;
  RemoveHole(hole);
  slabs_.erase(found);
}

std::optional<BestFit::Place> BestFit::Take(uint64_t bytes) {
  assert(bytes > 0);
  const auto best = by_size_.lower_bound({bytes, 0, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [hole_bytes, slab, offset] = *best;
  RemoveHole(holes_.find({slab, offset}));
  if (hole_bytes > bytes) AddHole(slab, offset + bytes, hole_bytes - bytes);
  free_bytes_ -= bytes;
  return Place{slab, offset};
}

bool BestFit::Give(Place place, uint64_t bytes) {
  free_bytes_ += bytes;
  uint64_t begin = place.offset;
  uint64_t end = place.offset + bytes;
  const auto next = holes_.lower_bound({place.slab, begin});
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    const auto [slab, offset] = previous->first;
    assert(slab != place.slab || offset + previous->second <= begin);
    if (slab == place.slab && offset + previous->second == begin) {
      begin = offset;
      RemoveHole(previous);
    }
  }
  if (next != holes_.end() && next->first.first == place.slab) {
    assert(next->first.second >= end);
    if (next->first.second == end) {
      end += next->second;
      RemoveHole(next);
    }
  }
  AddHole(place.slab, begin, end - begin);
  const auto slab = slabs_.find(place.slab);
  assert(slab != slabs_.end() && end <= slab->second);
  return end - begin == slab->second;
}

}  // namespace npubank

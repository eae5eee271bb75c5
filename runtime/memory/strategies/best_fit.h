// BestFit: which bytes of some slabs are free. Books only: it never touches the memory.
//
//   BestFit books;
//   books.AddSlab(7, 32 << 20);
//   std::optional<BestFit::Place> place = books.Take(4096);   // the smallest hole that it fits in
//   bool empty = books.Give(*place, 4096);                    // neighbours grow together again
//   if (empty) books.RemoveSlab(7);
//
// A slab is a number that the caller chose. Holes never reach across slabs. Alignment is the
// caller's: whoever takes and gives multiples of N only gets multiples of N. Of equal holes the one
// in the lowest slab at the lowest offset is taken, so the same calls give the same places.
// Cost: logarithmic in the number of holes. Threads: one at a time. Giving back what was not taken
// is a bug of the caller (checked in debug builds).
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_BEST_FIT_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_BEST_FIT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace npubank {

class BestFit {
 public:
  struct Place {
    uint64_t slab = 0;
    uint64_t offset = 0;
    bool operator==(const Place&) const = default;
  };

  // A slab of this number must not be there, and `bytes` not be 0.
  void AddSlab(uint64_t slab, uint64_t bytes);
  // The slab must be empty: nothing of it is taken.
  void RemoveSlab(uint64_t slab);

  // nullopt when no hole is as large as `bytes`, which must not be 0.
  std::optional<Place> Take(uint64_t bytes);
  // Bytes of exactly what Take gave. True when all of its slab is free now.
  bool Give(Place place, uint64_t bytes);

  uint64_t slab_bytes() const { return slab_bytes_; }  // of all slabs
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t largest_hole() const { return by_size_.empty() ? 0 : std::get<0>(*by_size_.rbegin()); }

 private:
  using Holes = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;  // (slab, offset) -> bytes

  void AddHole(uint64_t slab, uint64_t offset, uint64_t bytes);
  void RemoveHole(Holes::iterator hole);

  std::map<uint64_t, uint64_t> slabs_;  // number -> bytes
  Holes holes_;
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> by_size_;  // (bytes, slab, offset)
  uint64_t slab_bytes_ = 0;
  uint64_t free_bytes_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_BEST_FIT_H_

// Placed: tensors placed in slabs of another strategy, each in the smallest hole that it fits in.
//
//   auto placed = std::make_shared<Placed>(committed, Placed::Options());
//
// A slab is made when no hole fits, and given back as soon as nothing is in it. Slabs grow with
// what is in them: an eighth of it, so that a small model does not pay for a large slab.
// A tensor of `alone_bytes` or more gets memory of its own: a slab spares it one driver call, and
// costs what is left at the end of the slab and the holes that tensors of other sizes leave. Where
// memory comes in pages, of its last page part is wasted.
// A tensor that wants a larger alignment than places have takes that much more of its slab.
// Cost: one driver call per slab; the rest is bookkeeping, logarithmic in the number of holes.
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_PLACED_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_PLACED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/memory/strategies/best_fit.h"
#include "npubank/runtime/memory/strategies/strategy.h"

namespace npubank {

class Placed : public Strategy, public std::enable_shared_from_this<Placed> {
 public:
  struct Options {
    uint64_t least_slab_bytes = 1 << 20;
    uint64_t most_slab_bytes = 64 << 20;  // the least times a power of two
    uint64_t alone_bytes = 256 << 10;
    uint64_t alignment = kDeviceAlignment;  // of places, in slabs that have at least that
    uint64_t page_bytes = kDeviceAlignment;  // what slabs are multiples of, and it of the alignment

    // For slabs that come in pages of this size: a tensor of eight wastes little of its last one.
    static Options ForPages(uint64_t page_bytes, uint64_t alignment = kDeviceAlignment);
  };

  Placed(std::shared_ptr<Strategy> slabs, Options options)
      : slab_source_(std::move(slabs)), options_(options) {}

  absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t alignment,
                                                  absl::string_view name) override;
  uint64_t Trim() override { return slab_source_->Trim(); }

 private:
  class PlacedBlock;

  std::unique_ptr<Block> Take(uint64_t bytes, uint64_t alignment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `bytes` becomes what it was made of.
  absl::StatusOr<std::unique_ptr<Block>> MakeSlab(uint64_t* bytes, uint64_t wanted,
                                                  absl::string_view name);
  void Free(BestFit::Place place, uint64_t bytes);

  const std::shared_ptr<Strategy> slab_source_;
  const Options options_;

  Mutex mutex_;
  BestFit holes_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::unique_ptr<Block>> slabs_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_slab_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_PLACED_H_

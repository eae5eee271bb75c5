// Tiled: tensors at addresses of their own, with physical tiles mapped behind them.
//
//   absl::StatusOr<std::shared_ptr<Tiled>> tiled = Tiled::Create(device, accounting);
//   if (absl::IsUnimplemented(tiled.status())) ...   // no virtual memory: place in slabs instead
//
// Addresses are reserved once, in a range far larger than what is used, and are given out best fit
// by the page; memory comes in tiles of 2 MiB (a page, where pages are larger), any free pages of
// which serve any tensor (tiles.h). So the memory held is what is in use and less than a tile more,
// whatever was freed in whatever order. When a range is full another one is reserved.
// Some tiles that become free are kept for the next tensor: tiles.h says how many.
//
// Sizes are rounded up to pages; for what is much smaller than a page put a Placed on top. Cost: a
// driver call per new tile and one per piece mapped and unmapped, mostly one per 2 MiB.
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_TILED_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_TILED_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/level_zero/virtual_memory.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/strategies/best_fit.h"
#include "npubank/runtime/memory/strategies/strategy.h"
#include "npubank/runtime/memory/strategies/tiles.h"

namespace npubank {

class Tiled : public Strategy, public std::enable_shared_from_this<Tiled> {
 public:
  static constexpr uint64_t kTileBytes = 2 << 20;

  // Reserves the first range. Unimplemented where the driver has no virtual memory.
  static absl::StatusOr<std::shared_ptr<Tiled>> Create(std::shared_ptr<level_zero::Device> device,
                                                       std::shared_ptr<Accounting> accounting);

  absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t alignment,
                                                  absl::string_view name) override;
  uint64_t Trim() override;

  uint64_t page_bytes() const { return page_bytes_; }

 private:
  class TiledBlock;
  // A tile, accounted for.
  class HeldTile;
  using TileNumbers = std::vector<uint64_t>;
  using HeldTiles = std::vector<std::unique_ptr<HeldTile>>;

  // What a tensor has of the tiles and the addresses; empty where nothing was taken.
  struct Claim {
    std::vector<Tiles::Piece> pieces;
    std::vector<ze_physical_mem_handle_t> memory;  // of each piece
    BestFit::Place place;
    std::byte* address = nullptr;  // null: no addresses
    uint64_t bytes = 0;
  };

  Tiled(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting,
        uint64_t page_bytes);

  absl::Status ReserveRange(uint64_t least_bytes);
  absl::Status ClaimMemory(Claim* claim);
  absl::Status ClaimAddresses(Claim* claim);
  absl::StatusOr<std::vector<level_zero::Mapping>> Map(const Claim& claim) const;
  void GiveBack(const Claim& claim);
  HeldTiles RemoveTiles(const TileNumbers& numbers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<level_zero::Device> device_;
  const std::shared_ptr<Accounting> accounting_;
  const uint64_t page_bytes_;
  const uint64_t tile_bytes_;

  Mutex mutex_;
  std::vector<level_zero::AddressRange> ranges_ ABSL_GUARDED_BY(mutex_);
  BestFit addresses_ ABSL_GUARDED_BY(mutex_);  // a slab is an index into ranges_
  Tiles tiles_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::unique_ptr<HeldTile>> memory_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_tile_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_TILED_H_

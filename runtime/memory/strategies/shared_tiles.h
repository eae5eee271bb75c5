// SharedTiles: pages of their own for large tensors, and pages shared by small ones.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Tiled> tiled, Tiled::Create(device, accounting));
//   auto strategy = std::make_shared<SharedTiles>(tiled, tiled->page_bytes());
//
// A tensor of whole pages, or of many, gets pages of its own; rounding a smaller one up to pages
// would waste a good part of the last, so it is placed in a slab of pages instead.
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_SHARED_TILES_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_SHARED_TILES_H_

#include <cstdint>
#include <memory>

#include "npubank/runtime/memory/strategies/placed.h"
#include "npubank/runtime/memory/strategies/strategy.h"

namespace npubank {

class SharedTiles : public Strategy {
 public:
  static constexpr uint64_t kOwnPages = 6;    // from here on the last page's waste is small
  static constexpr uint64_t kSlabPages = 32;  // at most, of a slab

  // `pages` rounds sizes up to pages of this size; slabs are taken from it too. What shares a page is
  // aligned as said.
  SharedTiles(std::shared_ptr<Strategy> pages, uint64_t page_bytes,
              uint64_t alignment = kDeviceAlignment);

  absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t alignment,
                                                  absl::string_view name) override;
  uint64_t Trim() override { return pages_->Trim(); }

 private:
  const std::shared_ptr<Strategy> pages_;
  const uint64_t page_bytes_;
  const std::shared_ptr<Placed> small_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_SHARED_TILES_H_

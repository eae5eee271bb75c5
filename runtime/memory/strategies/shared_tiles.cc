#include "npubank/runtime/memory/strategies/shared_tiles.h"

#include <utility>

namespace npubank {
namespace {

Placed::Options SlabsOfPages(uint64_t page_bytes, uint64_t alignment) {
  Placed::Options options;
  options.alignment = alignment;
  options.least_slab_bytes = page_bytes;
  options.most_slab_bytes = SharedTiles::kSlabPages * page_bytes;
  options.alone_bytes = SharedTiles::kOwnPages * page_bytes;
  options.page_bytes = page_bytes;
  return options;
}

}  // namespace

SharedTiles::SharedTiles(std::shared_ptr<Strategy> pages, uint64_t page_bytes, uint64_t alignment)
    : pages_(std::move(pages)),
      page_bytes_(page_bytes),
      small_(std::make_shared<Placed>(pages_, SlabsOfPages(page_bytes, alignment))) {}

absl::StatusOr<std::unique_ptr<Block>> SharedTiles::Allocate(uint64_t bytes, uint64_t alignment,
                                                             absl::string_view name) {
  if (bytes % page_bytes_ == 0) return pages_->Allocate(bytes, alignment, name);
  return small_->Allocate(bytes, alignment, name);  // which passes large ones on
}

}  // namespace npubank

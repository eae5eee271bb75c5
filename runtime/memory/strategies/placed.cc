#include "npubank/runtime/memory/strategies/placed.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kAlonePages = 8;

}  // namespace

class Placed::PlacedBlock : public Block {
 public:
  PlacedBlock(std::shared_ptr<Placed> placed, BestFit::Place place, std::byte* address,
              uint64_t bytes)
      : placed_(std::move(placed)), place_(place), address_(address), bytes_(bytes) {}
  ~PlacedBlock() override { placed_->Free(place_, bytes_); }

  std::byte* address() const override { return address_; }
  uint64_t reserved_bytes() const override { return bytes_; }

 private:
  const std::shared_ptr<Placed> placed_;
  const BestFit::Place place_;
  std::byte* const address_;
  const uint64_t bytes_;
};

Placed::Options Placed::Options::ForPages(uint64_t page_bytes, uint64_t alignment) {
  Options options;
  options.alignment = alignment;
  options.alone_bytes = std::max(options.alone_bytes, kAlonePages * page_bytes);
  options.page_bytes = page_bytes;
  return options;
}

absl::StatusOr<std::unique_ptr<Block>> Placed::Allocate(uint64_t bytes, uint64_t alignment,
                                                        absl::string_view name) {
  if (bytes >= options_.alone_bytes) return slab_source_->Allocate(bytes, alignment, name);
  // Who wants more than places have gets room to move in.
  bytes = AlignUp(bytes, options_.alignment);
  if (alignment > options_.alignment) bytes += alignment - options_.alignment;
  uint64_t slab_bytes = options_.least_slab_bytes;
  {
    MutexLock lock(mutex_);
    if (std::unique_ptr<Block> block = Take(bytes, alignment)) return block;
    while (slab_bytes < options_.most_slab_bytes && slab_bytes * 2 <= holes_.slab_bytes() / 8)
      slab_bytes *= 2;
  }
  // Whole pages are asked for: past what was asked for, addresses are unknown to the driver.
  const uint64_t wanted = AlignUp(bytes, options_.page_bytes);
  slab_bytes = std::max(AlignUp(slab_bytes, options_.page_bytes), wanted);
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Block> slab, MakeSlab(&slab_bytes, wanted, name));
  MutexLock lock(mutex_);
  // Others may have made room meanwhile: a slab that nothing is ever placed in would never be given back.
  if (std::unique_ptr<Block> block = Take(bytes, alignment)) return block;
  const uint64_t number = next_slab_++;
  holes_.AddSlab(number, slab_bytes);
  slabs_.emplace(number, std::move(slab));
  return Take(bytes, alignment);
}

std::unique_ptr<Block> Placed::Take(uint64_t bytes, uint64_t alignment) {
  const std::optional<BestFit::Place> place = holes_.Take(bytes);
  if (!place) return nullptr;
  std::byte* address = slabs_.at(place->slab)->address() + place->offset;
  address += AlignUp(reinterpret_cast<uintptr_t>(address), alignment) - reinterpret_cast<uintptr_t>(address);
  return std::make_unique<PlacedBlock>(shared_from_this(), *place, address, bytes);
}

// A device that has no room for a whole slab may have room for the tensor.
absl::StatusOr<std::unique_ptr<Block>> Placed::MakeSlab(uint64_t* bytes, uint64_t wanted,
                                                        absl::string_view name) {
  const std::string slab_name = absl::StrCat("a slab for ", name);
  absl::StatusOr<std::unique_ptr<Block>> slab = slab_source_->Allocate(*bytes, options_.alignment, slab_name);
  if (!absl::IsResourceExhausted(slab.status()) || wanted >= *bytes) return slab;
  *bytes = wanted;
  return slab_source_->Allocate(wanted, options_.alignment, slab_name);
}

void Placed::Free(BestFit::Place place, uint64_t bytes) {
  std::unique_ptr<Block> empty;  // freed without the lock
  MutexLock lock(mutex_);
  if (!holes_.Give(place, bytes)) return;
  holes_.RemoveSlab(place.slab);
  const auto slab = slabs_.find(place.slab);
  empty = std::move(slab->second);
  slabs_.erase(slab);
}

}  // namespace npubank

#include "npubank/runtime/memory/strategies/tiled.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

using level_zero::AddressRange;
using level_zero::Mapping;
using level_zero::PhysicalMemory;

constexpr uint64_t kMostRangeBytes = uint64_t{64} << 30;

// The largest power of two of addresses that the driver gives; it is not kept.
absl::StatusOr<uint64_t> LargestRange(const std::shared_ptr<level_zero::Device>& device,
                                      uint64_t least_bytes) {
  for (uint64_t bytes = std::max(kMostRangeBytes, least_bytes);; bytes /= 2) {
    const absl::Status status = AddressRange::Reserve(device, bytes).status();
    if (status.ok()) return bytes;
    if (absl::IsUnimplemented(status) || bytes / 2 < least_bytes) return status;
  }
}

}  // namespace

class Tiled::HeldTile {
 public:
  HeldTile(PhysicalMemory memory, std::shared_ptr<Accounting> accounting)
      : memory_(std::move(memory)), accounting_(std::move(accounting)) {
    accounting_->Hold(memory_->bytes(), memory_->bytes());
  }
  ~HeldTile() {
    const uint64_t bytes = memory_->bytes();
    memory_.reset();
    accounting_->Release(bytes, bytes);
  }
  ze_physical_mem_handle_t handle() const { return memory_->handle(); }

 private:
  std::optional<PhysicalMemory> memory_;
  const std::shared_ptr<Accounting> accounting_;
};

class Tiled::TiledBlock : public Block {
 public:
  TiledBlock(std::shared_ptr<Tiled> tiled, Claim claim, std::vector<Mapping> mappings)
      : tiled_(std::move(tiled)), claim_(std::move(claim)), mappings_(std::move(mappings)) {}
  ~TiledBlock() override {
    mappings_.clear();
    tiled_->GiveBack(claim_);
  }

  std::byte* address() const override { return claim_.address; }
  uint64_t reserved_bytes() const override { return claim_.bytes; }

 private:
  const std::shared_ptr<Tiled> tiled_;
  const Claim claim_;
  std::vector<Mapping> mappings_;
};

Tiled::Tiled(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting,
             uint64_t page_bytes)
    : device_(std::move(device)),
      accounting_(std::move(accounting)),
      page_bytes_(page_bytes),
      tile_bytes_(std::max(kTileBytes, page_bytes)),
      tiles_({.tile_bytes = tile_bytes_, .page_bytes = page_bytes_}) {}

absl::StatusOr<std::shared_ptr<Tiled>> Tiled::Create(std::shared_ptr<level_zero::Device> device,
                                                     std::shared_ptr<Accounting> accounting) {
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t page, level_zero::VirtualPageBytes(*device));
  std::shared_ptr<Tiled> tiled(new Tiled(std::move(device), std::move(accounting), page));
  NPUBANK_RETURN_IF_ERROR(tiled->ReserveRange(page));
  return tiled;
}

// Half of the largest power of two that can be had, because staging buffers, imports and graphs
// need addresses of the same device.
absl::Status Tiled::ReserveRange(uint64_t least_bytes) {
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t most, LargestRange(device_, least_bytes));
  const uint64_t bytes = AlignUp(std::max(most / 2, least_bytes), page_bytes_);
  NPUBANK_ASSIGN_OR_RETURN(AddressRange range, AddressRange::Reserve(device_, bytes));
  MutexLock lock(mutex_);
  addresses_.AddSlab(ranges_.size(), bytes);
  ranges_.push_back(std::move(range));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Block>> Tiled::Allocate(uint64_t bytes, uint64_t,
                                                       absl::string_view name) {
  Claim claim;
  claim.bytes = AlignUp(bytes, page_bytes_);
  absl::Status status = ClaimMemory(&claim);
  if (status.ok()) status = ClaimAddresses(&claim);
  if (status.ok()) {
    absl::StatusOr<std::vector<Mapping>> mappings = Map(claim);
    if (mappings.ok())
      return std::make_unique<TiledBlock>(shared_from_this(), std::move(claim),
                                          *std::move(mappings));
    status = mappings.status();
  }
  GiveBack(claim);
  return Annotate(status, absl::StrCat("'", name, "' (", bytes, " bytes)"));
}

absl::Status Tiled::ClaimMemory(Claim* claim) {
  HeldTiles fresh;
  uint64_t missing = claim->bytes;
  while (true) {
    {
      MutexLock lock(mutex_);
      for (std::unique_ptr<HeldTile>& tile : fresh) {
        tiles_.AddTile(next_tile_);
        memory_.emplace(next_tile_++, std::move(tile));
      }
      missing = tiles_.Take(missing, &claim->pieces);
      if (missing == 0) {
        for (const Tiles::Piece& piece : claim->pieces)
          claim->memory.push_back(memory_.at(piece.tile)->handle());
        return absl::OkStatus();
      }
    }
    fresh.clear();
    for (uint64_t bytes = 0; bytes < missing; bytes += tile_bytes_) {
      NPUBANK_ASSIGN_OR_RETURN(PhysicalMemory memory, PhysicalMemory::Create(device_, tile_bytes_));
      fresh.push_back(std::make_unique<HeldTile>(std::move(memory), accounting_));
    }
  }
}

absl::Status Tiled::ClaimAddresses(Claim* claim) {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (const std::optional<BestFit::Place> place = addresses_.Take(claim->bytes)) {
        claim->place = *place;
        claim->address = ranges_[place->slab].address() + place->offset;
        return absl::OkStatus();
      }
    }
    NPUBANK_RETURN_IF_ERROR(ReserveRange(claim->bytes));
  }
}

absl::StatusOr<std::vector<Mapping>> Tiled::Map(const Claim& claim) const {
  std::vector<Mapping> mappings;
  mappings.reserve(claim.pieces.size());
  std::byte* address = claim.address;
  for (size_t i = 0; i < claim.pieces.size(); ++i) {
    const Tiles::Piece& piece = claim.pieces[i];
    NPUBANK_ASSIGN_OR_RETURN(Mapping mapping, Mapping::Create(device_, address, claim.memory[i],
                                                              piece.offset, piece.bytes));
    mappings.push_back(std::move(mapping));
    address += piece.bytes;
  }
  return mappings;
}

void Tiled::GiveBack(const Claim& claim) {
  HeldTiles unneeded;  // destroyed without the lock
  MutexLock lock(mutex_);
  if (claim.address) addresses_.Give(claim.place, claim.bytes);
  tiles_.Give(claim.pieces);
  unneeded = RemoveTiles(tiles_.TakeUnneeded());
}

Tiled::HeldTiles Tiled::RemoveTiles(const TileNumbers& numbers) {
  HeldTiles removed;
  for (const uint64_t number : numbers) {
    const auto tile = memory_.find(number);
    removed.push_back(std::move(tile->second));
    memory_.erase(tile);
  }
  return removed;
}

uint64_t Tiled::Trim() {
  HeldTiles unused;
  {
    MutexLock lock(mutex_);
    unused = RemoveTiles(tiles_.TakeUnused());
  }
  return unused.size() * tile_bytes_;
}

}  // namespace npubank

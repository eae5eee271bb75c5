#include "npubank/runtime/memory/strategies/tiles.h"

#include <algorithm>

namespace npubank {
namespace {

constexpr uint64_t kKeptPart = 8;  // an eighth

}  // namespace

void Tiles::AddTile(uint64_t tile) {
  pages_.AddSlab(tile, options_.tile_bytes);
  unused_.insert(tile);
}

void Tiles::TakePiece(uint64_t bytes, std::vector<Piece>* pieces) {
  const BestFit::Place place = *pages_.Take(bytes);
  unused_.erase(place.slab);
  pieces->push_back({place.slab, place.offset, bytes});
}

uint64_t Tiles::Take(uint64_t bytes, std::vector<Piece>* pieces) {
  while (bytes > 0 && pages_.free_bytes() > 0) {
    const uint64_t wanted = std::min(bytes, options_.tile_bytes);
    const uint64_t piece = std::min(wanted, pages_.largest_hole());
    TakePiece(piece, pieces);
    bytes -= piece;
  }
  return bytes;
}

void Tiles::Give(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces)
    if (pages_.Give({piece.tile, piece.offset}, piece.bytes)) unused_.insert(piece.tile);
}

std::vector<uint64_t> Tiles::TakeUnneeded() {
  if (taken_bytes() == 0) return TakeUnused();
  return TakeUnused(taken_bytes() / kKeptPart / options_.tile_bytes + 1);
}

std::vector<uint64_t> Tiles::TakeUnused() { return TakeUnused(0); }

std::vector<uint64_t> Tiles::TakeUnused(uint64_t kept) {
  std::vector<uint64_t> tiles;
  while (unused_.size() > kept) {
    const uint64_t tile = *unused_.rbegin();
    unused_.erase(tile);
    pages_.RemoveSlab(tile);
    tiles.push_back(tile);
  }
  return tiles;
}

}  // namespace npubank

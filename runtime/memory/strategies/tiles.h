// Tiles: which pages of which physical tiles are free, and which tiles are not needed any more.
// Books only: it never calls a driver.
//
//   Tiles tiles({.tile_bytes = 2 << 20, .page_bytes = 64 << 10});
//   std::vector<Tiles::Piece> pieces;
//   uint64_t missing = tiles.Take(bytes, &pieces);            // of what is there already
//   for (; missing > 0; missing = tiles.Take(missing, &pieces)) tiles.AddTile(number);
//   ...
//   tiles.Give(pieces);
//   for (uint64_t tile : tiles.TakeUnneeded()) Destroy(tile);
//
// A tile is one piece of physical memory, a page what a mapping can begin at; because addresses are
// mapped page by page, free pages anywhere serve any size, and nothing is fragmented beyond the
// last page. Order of taking: whole tiles for whole tiles' worth, the smallest run of pages that
// holds the rest, and only when there is none, several smaller runs (more mappings, no new tile).
//
// Of the tiles that become free some are kept, because the next tensor will want them: an eighth of
// what is taken, and one tile. The rest goes at once, and everything when nothing is taken at all;
// when memory is short TakeUnused takes all that are free.
// Sizes are multiples of page_bytes; a tile is a multiple of a page. Threads: one at a time.
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_TILES_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_TILES_H_

#include <cstdint>
#include <set>
#include <vector>

#include "npubank/runtime/memory/strategies/best_fit.h"

namespace npubank {

class Tiles {
 public:
  struct Options {
    uint64_t tile_bytes = 2 << 20;
    uint64_t page_bytes = 64 << 10;
  };
  struct Piece {
    uint64_t tile = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  explicit Tiles(Options options) : options_(options) {}

  // The tile's number is the caller's choice; all its pages are free.
  void AddTile(uint64_t tile);
  // Appends pieces that make up as much of `bytes` as is free; returns what is missing.
  uint64_t Take(uint64_t bytes, std::vector<Piece>* pieces);
  void Give(const std::vector<Piece>& pieces);

  // Tiles to give back now because fewer are enough; they are in the books no more.
  std::vector<uint64_t> TakeUnneeded();
  // All tiles of which nothing is taken, for when memory is short; they are in the books no more.
  std::vector<uint64_t> TakeUnused();

  uint64_t held_bytes() const { return pages_.slab_bytes(); }
  uint64_t taken_bytes() const { return pages_.slab_bytes() - pages_.free_bytes(); }
  // Of tiles that are free as a whole.
  uint64_t unused_bytes() const { return unused_.size() * options_.tile_bytes; }
  const Options& options() const { return options_; }

 private:
  void TakePiece(uint64_t bytes, std::vector<Piece>* pieces);
  std::vector<uint64_t> TakeUnused(uint64_t kept);

  const Options options_;
  BestFit pages_;              // a slab is a tile
  std::set<uint64_t> unused_;  // tiles that are free as a whole
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_TILES_H_

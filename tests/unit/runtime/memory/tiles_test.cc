#include "npubank/runtime/memory/strategies/tiles.h"
#include "npubank/tests/support/repetitions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace npubank {
namespace {

using Pieces = std::vector<Tiles::Piece>;

constexpr Tiles::Options kSmall = {.tile_bytes = 8, .page_bytes = 1};

// Takes `bytes`, with as many new tiles as that needs.
Pieces TakeAll(Tiles& tiles, uint64_t bytes, uint64_t* next_tile) {
  Pieces pieces;
  for (uint64_t missing = tiles.Take(bytes, &pieces); missing > 0;
       missing = tiles.Take(missing, &pieces))
    tiles.AddTile((*next_tile)++);
  return pieces;
}

TEST(TilesTest, FreePagesAnywhereServeAnySize) {
  Tiles tiles(kSmall);
  uint64_t next = 0;
  std::vector<Pieces> small;
  for (int i = 0; i < 16; ++i) small.push_back(TakeAll(tiles, 1, &next));
  EXPECT_EQ(tiles.held_bytes(), 16u);
  for (int i = 0; i < 16; i += 2) tiles.Give(small[i]);
  const Pieces large = TakeAll(tiles, 8, &next);
  EXPECT_EQ(large.size(), 8u) << "every second page";
  EXPECT_EQ(tiles.held_bytes(), 16u) << "no new tile for what is free in pieces";
}

TEST(TilesTest, WholeTilesAreTakenWhole) {
  Tiles tiles(kSmall);
  uint64_t next = 0;
  const Pieces first = TakeAll(tiles, 8 + 3, &next);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].bytes, 8u);
  const Pieces second = TakeAll(tiles, 8, &next);
  EXPECT_EQ(tiles.held_bytes(), 24u);
  EXPECT_EQ(second[0].bytes + second[1].bytes, 8u) << "the free 5 pages come first";
}

TEST(TilesTest, NothingTakenMeansEverythingGoes) {
  Tiles tiles(kSmall);
  uint64_t next = 0;
  const Pieces pieces = TakeAll(tiles, 40, &next);
  EXPECT_TRUE(tiles.TakeUnneeded().empty());
  tiles.Give(pieces);
  EXPECT_EQ(tiles.TakeUnneeded().size(), 5u);
  EXPECT_EQ(tiles.held_bytes(), 0u);
}

TEST(TilesTest, AnEighthOfWhatIsTakenAndATileAreKeptForTheNext) {
  Tiles tiles(kSmall);
  uint64_t next = 0;
  const Pieces stays = TakeAll(tiles, 16 * 8, &next);
  const Pieces comes_and_goes = TakeAll(tiles, 10 * 8, &next);
  tiles.Give(comes_and_goes);
  EXPECT_EQ(tiles.TakeUnneeded().size(), 7u) << "of 10 free ones 16 / 8 and one are kept";
  EXPECT_EQ(tiles.unused_bytes(), 3 * 8u);
  EXPECT_TRUE(tiles.TakeUnneeded().empty());
  const Pieces again = TakeAll(tiles, 3 * 8, &next);
  EXPECT_EQ(next, 26u) << "what was kept serves the next";
  tiles.Give(again);
  EXPECT_TRUE(tiles.TakeUnneeded().empty());
  tiles.Give(stays);
  EXPECT_EQ(tiles.TakeUnneeded().size(), 19u) << "nothing is left: nothing is kept";
}

TEST(TilesTest, ShortMemoryTakesAllThatIsUnused) {
  Tiles tiles(kSmall);
  uint64_t next = 0;
  const Pieces stays = TakeAll(tiles, 9, &next);
  tiles.Give(TakeAll(tiles, 80, &next));
  const uint64_t held = tiles.held_bytes();
  EXPECT_EQ(tiles.TakeUnused().size(), held / kSmall.tile_bytes - 2) << "nine pages lie in two";
  EXPECT_EQ(tiles.taken_bytes(), 9u);
  EXPECT_EQ(tiles.held_bytes(), 16u);
  tiles.Give(stays);
}

TEST(TilesTest, RandomCallsNeverHandOutAPageTwiceAndNeverHoldATileTooMany) {
  std::mt19937 random(PrintedSeed());
  const auto below = [&](uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
  };
  Tiles tiles(kSmall);
  std::set<uint64_t> held;                        // tiles
  std::set<std::pair<uint64_t, uint64_t>> taken;  // (tile, page)
  std::vector<Pieces> live;
  uint64_t next = 0, peak = 0;
  for (int step = 0; step < Repetitions(200'000); ++step) {
    if (live.empty() || below(100) < 52) {
      const uint64_t bytes = 1 + below(below(3) == 0 ? 60 : 7);
      const uint64_t first_new = next;
      Pieces pieces = TakeAll(tiles, bytes, &next);
      for (uint64_t tile = first_new; tile < next; ++tile) held.insert(tile);
      uint64_t sum = 0;
      for (const Tiles::Piece& piece : pieces) {
        sum += piece.bytes;
        ASSERT_TRUE(held.count(piece.tile)) << "step " << step;
        ASSERT_LE(piece.offset + piece.bytes, kSmall.tile_bytes);
        for (uint64_t page = 0; page < piece.bytes; ++page)
          ASSERT_TRUE(taken.emplace(piece.tile, piece.offset + page).second)
              << "taken twice, step " << step;
      }
      ASSERT_EQ(sum, bytes);
      peak = std::max<uint64_t>(peak, taken.size());
      ASSERT_LT(tiles.held_bytes(), peak + kSmall.tile_bytes);
      live.push_back(std::move(pieces));
    } else {
      std::swap(live[below(live.size())], live.back());
      for (const Tiles::Piece& piece : live.back())
        for (uint64_t page = 0; page < piece.bytes; ++page)
          taken.erase({piece.tile, piece.offset + page});
      tiles.Give(live.back());
      live.pop_back();
      for (const uint64_t tile : below(20) == 0 ? tiles.TakeUnused() : tiles.TakeUnneeded()) {
        ASSERT_EQ(held.erase(tile), 1u);
        const auto user = taken.lower_bound({tile, 0});
        ASSERT_TRUE(user == taken.end() || user->first != tile);
      }
      ASSERT_LE(tiles.unused_bytes(), taken.size() / 8 + kSmall.tile_bytes);
    }
    ASSERT_EQ(tiles.taken_bytes(), taken.size());
    ASSERT_EQ(tiles.held_bytes(), held.size() * kSmall.tile_bytes);
  }
}

}  // namespace
}  // namespace npubank

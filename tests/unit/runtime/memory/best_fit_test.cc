#include "npubank/runtime/memory/strategies/best_fit.h"
#include "npubank/tests/support/repetitions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace npubank {
namespace {

// One byte of books per byte of memory: slow, and too simple to be wrong.
class ByteMap {
 public:
  void AddSlab(uint64_t slab, uint64_t bytes) { slabs_[slab].assign(bytes, false); }
  void RemoveSlab(uint64_t slab) { slabs_.erase(slab); }

  std::optional<BestFit::Place> Take(uint64_t bytes) {
    std::optional<BestFit::Place> best;
    uint64_t best_bytes = ~uint64_t{0};
    for (const auto& [slab, taken] : slabs_) {
      for (uint64_t begin = 0, end; begin < taken.size(); begin = end + 1) {
        for (end = begin; end < taken.size() && !taken[end];) ++end;
        if (end - begin >= bytes && end - begin < best_bytes) {
          best = BestFit::Place{slab, begin};
          best_bytes = end - begin;
        }
      }
    }
    if (best) Mark(*best, bytes, true);
    return best;
  }
  bool Give(BestFit::Place place, uint64_t bytes) {
    Mark(place, bytes, false);
    for (const bool taken : slabs_[place.slab])
      if (taken) return false;
    return true;
  }
  uint64_t free_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [slab, taken] : slabs_)
      for (const bool is_taken : taken) bytes += !is_taken;
    return bytes;
  }

 private:
  void Mark(BestFit::Place place, uint64_t bytes, bool taken) {
    for (uint64_t i = 0; i < bytes; ++i) {
      ASSERT_NE(slabs_[place.slab][place.offset + i], taken);
      slabs_[place.slab][place.offset + i] = taken;
    }
  }
  std::map<uint64_t, std::vector<bool>> slabs_;
};

TEST(BestFitTest, TheSmallestHoleThatFitsIsTaken) {
  BestFit books;
  books.AddSlab(1, 100);
  const auto a = books.Take(30);  // [0, 30)
  const auto b = books.Take(10);  // [30, 40)
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(books.Give(*a, 30));
  EXPECT_EQ(books.Take(25), (BestFit::Place{1, 0})) << "30 free bytes fit better than 60";
  EXPECT_EQ(books.Take(31), (BestFit::Place{1, 40}));
}

TEST(BestFitTest, NeighboursGrowTogetherAndAnEmptySlabIsToldOf) {
  BestFit books;
  books.AddSlab(7, 30);
  const auto a = books.Take(10), b = books.Take(10), c = books.Take(10);
  ASSERT_TRUE(a && b && c);
  EXPECT_FALSE(books.Take(1)) << "full";
  EXPECT_FALSE(books.Give(*a, 10));
  EXPECT_FALSE(books.Give(*c, 10));
  EXPECT_EQ(books.largest_hole(), 10u);
  EXPECT_TRUE(books.Give(*b, 10));
  EXPECT_EQ(books.largest_hole(), 30u);
  books.RemoveSlab(7);
  EXPECT_EQ(books.slab_bytes(), 0u);
  EXPECT_EQ(books.free_bytes(), 0u);
}

TEST(BestFitTest, HolesNeverReachAcrossSlabs) {
  BestFit books;
  books.AddSlab(1, 10);
  books.AddSlab(2, 10);
  EXPECT_FALSE(books.Take(11));
  EXPECT_TRUE(books.Take(10));
  EXPECT_TRUE(books.Take(10));
}

TEST(BestFitTest, RandomCallsAgreeWithAMapOfBytes) {
  std::mt19937 random(PrintedSeed());
  const auto below = [&](uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
  };
  BestFit books;
  ByteMap truth;
  struct Taken {
    BestFit::Place place;
    uint64_t bytes;
  };
  std::vector<Taken> taken;
  std::map<uint64_t, int> users;
  uint64_t slabs = 0;
  for (int step = 0; step < Repetitions(100'000); ++step) {
    if (users.size() < 2 || (users.size() < 6 && below(50) == 0)) {
      const uint64_t bytes = 1 + below(300);
      books.AddSlab(slabs, bytes);
      truth.AddSlab(slabs, bytes);
      users[slabs++] = 0;
    } else if (taken.empty() || below(100) < 55) {
      const uint64_t bytes = 1 + below(below(4) == 0 ? 120 : 20);
      const auto place = books.Take(bytes);
      ASSERT_EQ(place, truth.Take(bytes)) << "step " << step;
      if (!place) continue;
      taken.push_back({*place, bytes});
      ++users[place->slab];
    } else {
      std::swap(taken[below(taken.size())], taken.back());
      const Taken gone = taken.back();
      taken.pop_back();
      const bool empty = books.Give(gone.place, gone.bytes);
      ASSERT_EQ(empty, truth.Give(gone.place, gone.bytes)) << "step " << step;
      ASSERT_EQ(empty, --users[gone.place.slab] == 0);
      if (empty) {
        books.RemoveSlab(gone.place.slab);
        truth.RemoveSlab(gone.place.slab);
        users.erase(gone.place.slab);
      }
    }
    ASSERT_EQ(books.free_bytes(), truth.free_bytes());
  }
}

}  // namespace
}  // namespace npubank

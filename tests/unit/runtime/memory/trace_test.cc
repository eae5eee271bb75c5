// The bookkeeping on allocations that real programs made: how much is reserved at the peak for what
// is live at the peak. Power-of-two pools need 3.00 / 1.72 / 1.69 for the same traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/runtime/memory/strategies/placed.h"
#include "npubank/runtime/memory/strategies/shared_tiles.h"
#include "npubank/runtime/memory/strategies/tiles.h"
#include "npubank/tests/support/temporary_file.h"
#include "npubank/tools/benchmarks/allocation_trace.h"

namespace npubank {
namespace {

// The address of memory that is only counted; nobody touches it.
std::byte* const kNowhere = reinterpret_cast<std::byte*>(uintptr_t{4096});

// Memory that is only counted; whole pages of it.
class Counted : public Strategy {
 public:
  explicit Counted(uint64_t page_bytes) : page_bytes_(page_bytes) {}
  absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t, absl::string_view) override {
    return std::make_unique<CountedBlock>(*this, AlignUp(bytes, page_bytes_));
  }
  uint64_t peak() const { return peak_; }

 private:
  class CountedBlock : public Block {
   public:
    CountedBlock(Counted& counted, uint64_t bytes) : counted_(counted), bytes_(bytes) {
      counted_.live_ += bytes;
      counted_.peak_ = std::max(counted_.peak_, counted_.live_);
    }
    ~CountedBlock() override { counted_.live_ -= bytes_; }
    std::byte* address() const override { return kNowhere; }
    uint64_t reserved_bytes() const override { return bytes_; }

   private:
    Counted& counted_;
    uint64_t bytes_;
  };
  const uint64_t page_bytes_;
  uint64_t live_ = 0;
  uint64_t peak_ = 0;
};

// Tiles without a driver.
class CountedTiles : public Strategy {
 public:
  explicit CountedTiles(uint64_t page_bytes)
      : tiles_({.tile_bytes = 2 << 20, .page_bytes = page_bytes}) {}
  absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t, absl::string_view) override {
    bytes = AlignUp(bytes, tiles_.options().page_bytes);
    std::vector<Tiles::Piece> pieces;
    for (uint64_t missing = tiles_.Take(bytes, &pieces); missing > 0;
         missing = tiles_.Take(missing, &pieces))
      tiles_.AddTile(next_++);
    peak_ = std::max(peak_, tiles_.held_bytes());
    return std::make_unique<TileBlock>(tiles_, std::move(pieces), bytes);
  }
  uint64_t peak() const { return peak_; }

 private:
  class TileBlock : public Block {
   public:
    TileBlock(Tiles& tiles, std::vector<Tiles::Piece> pieces, uint64_t bytes)
        : tiles_(tiles), pieces_(std::move(pieces)), bytes_(bytes) {}
    ~TileBlock() override {
      tiles_.Give(pieces_);
      tiles_.TakeUnneeded();
      EXPECT_LE(tiles_.unused_bytes(), tiles_.taken_bytes() / 8 + tiles_.options().tile_bytes);
    }
    std::byte* address() const override { return kNowhere; }
    uint64_t reserved_bytes() const override { return bytes_; }

   private:
    Tiles& tiles_;
    std::vector<Tiles::Piece> pieces_;
    uint64_t bytes_;
  };
  Tiles tiles_;
  uint64_t next_ = 0;
  uint64_t peak_ = 0;
};

double Ratio(uint64_t peak_held, const AllocationTrace& trace) {
  return static_cast<double>(peak_held) / static_cast<double>(trace.peak_live_bytes);
}

void Replay(const AllocationTrace& trace, Strategy& strategy) {
  std::unordered_map<uint64_t, std::unique_ptr<Block>> live;
  for (const AllocationTrace::Step& step : trace.steps) {
    if (step.allocate) {
      live[step.id] = *strategy.Allocate(step.bytes, 64, "traced");
    } else {
      live.erase(step.id);
    }
  }
  EXPECT_TRUE(live.empty());
}

double PlacedRatio(const AllocationTrace& trace, uint64_t page_bytes) {
  auto pages = std::make_shared<Counted>(page_bytes);
  Replay(trace, *std::make_shared<Placed>(pages, Placed::Options::ForPages(page_bytes)));
  return Ratio(pages->peak(), trace);
}

double TiledRatio(const AllocationTrace& trace, uint64_t page_bytes) {
  auto tiles = std::make_shared<CountedTiles>(page_bytes);
  Replay(trace, *std::make_shared<SharedTiles>(tiles, page_bytes));
  return Ratio(tiles->peak(), trace);
}

constexpr uint64_t kPages[] = {4 << 10, 64 << 10, 2 << 20};

// The traces of real programs, where they are at hand.
class TraceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path =
        std::string(NPUBANK_SOURCE_DIR "/../shared/alloc_traces/") + GetParam() + ".txt";
    auto trace = AllocationTrace::Load(path);
    if (absl::IsNotFound(trace.status()))
      GTEST_SKIP() << "the optional data " << path << " is not there";
    ASSERT_TRUE(trace.ok()) << trace.status();
    trace_ = *std::move(trace);
  }

  AllocationTrace trace_;
};

TEST_P(TraceTest, PlacedReservesLittleMoreThanWhatIsLive) {
  for (const uint64_t page : kPages) {
    const double ratio = PlacedRatio(trace_, page);
    std::cout << GetParam() << ": placed, pages of " << page << ": " << ratio << std::endl;
    EXPECT_LE(ratio, page == 2 << 20 ? 1.05 : 1.01);
  }
}

TEST_P(TraceTest, TiledReservesWhatIsLiveAndLittleMore) {
  for (const uint64_t page : kPages) {
    const double ratio = TiledRatio(trace_, page);
    std::cout << GetParam() << ": tiled, pages of " << page << ": " << ratio << std::endl;
    EXPECT_LE(ratio, GetParam() == "a_phases" ? 1.0 : page == 2 << 20 ? 1.06 : 1.01);
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, TraceTest,
                         ::testing::Values("a_phases", "b1_model_switch_swap", "d1_varseq_infer"),
                         [](const auto& test) { return test.param; });

// Models of odd sizes that take turns, on pages of every size.
class ModelSwitchTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ModelSwitchTest, TwentyTracesHoldLittleMoreThanWhatIsLive) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const AllocationTrace trace = AllocationTrace::ModelSwitches(seed);
    const double placed = PlacedRatio(trace, GetParam());
    const double tiled = TiledRatio(trace, GetParam());
    std::cout << "seed " << seed << ", pages of " << GetParam() << ", "
              << (trace.peak_live_bytes >> 20) << " MiB live: placed " << placed << ", tiled "
              << tiled << std::endl;
    EXPECT_LE(placed, 1.15) << "seed " << seed;
    EXPECT_LE(tiled, 1.15) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, ModelSwitchTest, ::testing::ValuesIn(kPages),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(AllocationTraceTest, ALineOfAnotherFormIsNamed) {
  for (const absl::string_view text :
       {"alloc 1", "alloc 1 0", "alloc 1 -5", "alloc 1 99999999999999999999", "free 1", "grow 1 2",
        "alloc 1 2\nalloc 1 2", "alloc 1 2 3", "alloc 1 2\nfree 1\nfree 1", "\n"}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    const testing::TemporaryFile file(std::vector<std::byte>(bytes, bytes + text.size()));
    const absl::Status status = AllocationTrace::Load(file.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("line "), absl::string_view::npos) << status;
  }
  EXPECT_TRUE(absl::IsNotFound(AllocationTrace::Load("/no/such/trace").status()));
}

}  // namespace
}  // namespace npubank

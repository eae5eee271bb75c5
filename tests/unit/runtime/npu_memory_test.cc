#include "npubank/runtime/memory/npu_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/imports.h"
#include "npubank/runtime/memory/read_ahead.h"
#include "npubank/runtime/memory/upload.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank {
namespace {

class NpuMemoryTest : public NpuTest {
 protected:
  DeviceMemory& memory() { return *place_.memory; }
};

std::byte Pattern(uint64_t offset) { return static_cast<std::byte>(offset * 7 + (offset >> 8)); }

absl::Status Produce(uint64_t offset, absl::Span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = Pattern(offset + i);
  return absl::OkStatus();
}

TEST_F(NpuMemoryTest, WrittenBytesAreReadBack) {
  auto allocation = memory().Allocate(10000, "weight");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  ASSERT_TRUE(memory().Write(**allocation, Produce).ok());
  std::vector<std::byte> read(5000);
  ASSERT_TRUE(memory().Read(**allocation, 4321, absl::MakeSpan(read)).ok());
  for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], Pattern(4321 + i)) << i;
}

TEST_F(NpuMemoryTest, StagedUploadsArriveWholeInAscendingPieces) {
  const uint64_t bytes = 2 * Staging::kPieceBytes + 12345;
  auto allocation = memory().Allocate(bytes, "weight");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  Staging staging(place_.device, std::make_shared<Accounting>(), [] {});
  uint64_t next = 0;
  const auto produce = [&](uint64_t offset, absl::Span<std::byte> out) {
    EXPECT_EQ(offset, next);
    next += out.size();
    return Produce(offset, out);
  };
  ASSERT_TRUE(staging.Upload((*allocation)->address(), bytes, produce).ok());
  EXPECT_EQ(next, bytes);
  std::vector<std::byte> read(bytes);
  ASSERT_TRUE(staging.Download((*allocation)->address(), absl::MakeSpan(read)).ok());
  for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], Pattern(i)) << i;
}

TEST_F(NpuMemoryTest, AFailingProducerLeavesNoStagingMemory) {
  auto allocation = memory().Allocate(3 * Staging::kPieceBytes, "weight");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  const uint64_t before = Driver().live_allocations;
  const auto produce = [&](uint64_t offset, absl::Span<std::byte> out) {
    return offset > 0 ? absl::DataLossError("the file shrank") : Produce(offset, out);
  };
  Staging staging(place_.device, std::make_shared<Accounting>(), [] {});
  EXPECT_EQ(staging.Upload((*allocation)->address(), (*allocation)->bytes(), produce),
            absl::DataLossError("the file shrank"));
  EXPECT_EQ(Driver().live_allocations, before);
}

TEST_F(NpuMemoryTest, TheStagingRingServesTheNextTensorAndIsGivenBackByTrim) {
  auto allocation = memory().Allocate(3 * Staging::kPieceBytes, "weight");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  const level_zero::SoftwareNpuStatistics before = Driver();
  auto accounting = std::make_shared<Accounting>();
  Staging staging(place_.device, accounting, [] {});
  void* const to = (*allocation)->address();
  ASSERT_TRUE(staging.Upload(to, 3 * Staging::kPieceBytes, Produce).ok());
  EXPECT_EQ(Driver().live_bytes - before.live_bytes, 2 * Staging::kPieceBytes);
  const uint64_t made = Driver().total_allocations;
  for (const uint64_t bytes : {uint64_t{100}, Staging::kPieceBytes, 3 * Staging::kPieceBytes})
    ASSERT_TRUE(staging.Upload(to, bytes, Produce).ok());
  EXPECT_EQ(Driver().total_allocations, made) << "the ring was not used again";
  EXPECT_EQ(accounting->usage().held_bytes, 2 * Staging::kPieceBytes);
  EXPECT_EQ(staging.Trim(), 2 * Staging::kPieceBytes);
  EXPECT_EQ(Driver().live_bytes, before.live_bytes);
  EXPECT_EQ(Driver().live_lists, before.live_lists);
  EXPECT_EQ(accounting->usage().held_bytes, 0u);
}

TEST_F(NpuMemoryTest, APieceIsProducedOnlyWhenItsBufferHasBeenCopied) {
  const NpuSwitches slow({{"NPUBANK_NPU_COPY_DELAY_US", absl::StrCat(20000)}});
  const uint64_t bytes = 4 * Staging::kPieceBytes;
  auto allocation = memory().Allocate(bytes, "weight");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  const uint64_t before = Driver().copied_bytes;
  const auto produce = [&](uint64_t offset, absl::Span<std::byte> out) {
    // A ring has two buffers: this one held the piece before the last.
    const uint64_t reused = offset < 2 * Staging::kPieceBytes ? 0 : offset - Staging::kPieceBytes;
    EXPECT_GE(Driver().copied_bytes - before, reused) << "still on its way to the device";
    return Produce(offset, out);
  };
  Staging staging(place_.device, std::make_shared<Accounting>(), [] {});
  ASSERT_TRUE(staging.Upload((*allocation)->address(), bytes, produce).ok());
  std::vector<std::byte> read(bytes);
  ASSERT_TRUE(memory().Read(**allocation, 0, absl::MakeSpan(read)).ok());
  for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], Pattern(i)) << i;
}

TEST_F(NpuMemoryTest, WhatIsKeptForReuseGoesWithTrimAndWithTheLastTensor) {
  const NpuSwitches discrete({{"NPUBANK_NPU_HOST_ACCESS", "0"}, {"NPUBANK_NPU_IMPORT", "1"}});
  auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
  ASSERT_TRUE(device.ok()) << device.status();
  auto memory = NpuMemory::Create(*device);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const testing::TemporaryFile file(std::vector<std::byte>(8192));
  auto source = Source::OpenFile(file.path());
  ASSERT_TRUE(source.ok()) << source.status();
  const auto ring_is_kept = [&] {
    return (*memory)->Usage().held_bytes >= 2 * Staging::kLeastPieceBytes + 8192;
  };
  for (const bool last_is_imported : {false, true}) {
    auto own = (*memory)->Allocate(1 << 20, "own");
    auto imported = (*memory)->Import(*source, 0, 4096, "imported");
    ASSERT_TRUE(own.ok() && imported.ok()) << own.status() << imported.status();
    ASSERT_TRUE((*memory)->Write(**own, Produce).ok());
    ASSERT_GT((*memory)->Usage().held_bytes, 1u << 20) << "a ring";
    (*memory)->Trim();
    EXPECT_EQ((*memory)->Usage().held_bytes, 1u << 20) << "no ring";
    ASSERT_TRUE((*memory)->Write(**own, Produce).ok());
    (last_is_imported ? *own : *imported).reset();
    ASSERT_TRUE(ring_is_kept());
    (last_is_imported ? *imported : *own).reset();
    EXPECT_EQ((*memory)->Usage().held_bytes, 0u);
    EXPECT_EQ(Driver().live_bytes, 0u);
  }
}

// A file that is said to be in memory, as what a daemon leases is.
class SourceInMemory final : public Source {
 public:
  SourceInMemory(std::shared_ptr<Source> file, const Digest& identity, bool there)
      : Source("in memory", identity, file->size()), file_(std::move(file)), there_(there) {}
  bool persistent() const override { return true; }
  bool mappable() const override { return true; }
  bool in_memory() const override { return there_; }
  int descriptor() const override { return file_->descriptor(); }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    return file_->Read(offset, out);
  }
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t offset,
                                                   uint64_t length) const override {
    return file_->View(offset, length);
  }
  void Release(uint64_t, uint64_t) const override {}

 private:
  const std::shared_ptr<Source> file_;
  const bool there_;
};

TEST_F(NpuMemoryTest, WhatIsInMemoryAlreadyIsNotReadAhead) {
  const NpuSwitches importing({{"NPUBANK_NPU_IMPORT", absl::StrCat(1)}});
  const testing::TemporaryFile file(std::vector<std::byte>(8192));
  for (const bool there : {false, true}) {
    const auto read_ahead = std::make_shared<ReadAhead>();
    Imports imports(place_.device, std::make_shared<Accounting>(), read_ahead, {});
    const auto region = imports.Acquire(
        std::make_shared<SourceInMemory>(Source::OpenFile(file.path()).value(), Digest{1, there}, there),
        0, 8192);
    ASSERT_TRUE(region.ok()) << region.status();
    imports.WillNeed(**region, 0, 8192);
    read_ahead->Finish();
    EXPECT_EQ(read_ahead->bytes(), there ? 0 : 8192);
  }
}

TEST_F(NpuMemoryTest, AFullDeviceLeavesRoomForASmallRing) {
  auto allocation = memory().Allocate(Staging::kPieceBytes, "weight");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  int asked = 0;
  Staging staging(place_.device, std::make_shared<Accounting>(), [&] { ++asked; });
  software_->pfnFailCall("zeMemAllocHost", 1, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  ASSERT_TRUE(staging.Upload((*allocation)->address(), Staging::kPieceBytes, Produce).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(staging.Trim(), 2 * Staging::kLeastPieceBytes);
}

TEST_F(NpuMemoryTest, UsageAgreesWithTheDriver) {
  auto first = memory().Allocate(1, "one byte");
  auto second = memory().Allocate(4097, "two pages");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(memory().Usage().live_bytes, 3 * 4096u);
  EXPECT_EQ(memory().Usage().live_allocations, 2u);
  EXPECT_EQ(*memory().DriverBytes(), 1 + 4097u) << "a driver counts what was asked for";
  EXPECT_EQ(Driver().live_bytes, 3 * 4096u);
  first->reset();
  EXPECT_EQ(*memory().DriverBytes(), 4097u);
  EXPECT_EQ(memory().Usage().peak_bytes, 3 * 4096u);
}

TEST_F(NpuMemoryTest, BadRangesAndSizesAreRefused) {
  EXPECT_EQ(memory().Allocate(0, "nothing").status().code(), absl::StatusCode::kInvalidArgument);
  auto allocation = memory().Allocate(100, "weight");
  ASSERT_TRUE(allocation.ok());
  std::vector<std::byte> out(10);
  EXPECT_FALSE(memory().Read(**allocation, 91, absl::MakeSpan(out)).ok());
  EXPECT_FALSE(memory().Read(**allocation, ~uint64_t{0}, absl::MakeSpan(out)).ok());
}

TEST_F(NpuMemoryTest, AFullDeviceSaysWhatDidNotFit) {
  software_->pfnFailCall("zeMemAllocDevice", 1, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  const absl::Status status = memory().Allocate(4096, "layers.0.wq").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("layers.0.wq"), absl::string_view::npos) << status;
  EXPECT_EQ(memory().Usage().live_bytes, 0u);
}

TEST_F(NpuMemoryTest, EveryStrategyHasAName) {
  for (const char* name : {"auto", "committed", "placed", "tiled", "imported"}) {
    const auto strategy = MemoryStrategyFromName(name);
    ASSERT_TRUE(strategy.has_value()) << name;
    EXPECT_EQ(MemoryStrategyName(*strategy), name);
  }
  EXPECT_FALSE(MemoryStrategyFromName("fast").has_value());
  EXPECT_FALSE(MemoryStrategyFromName("").has_value());
}

TEST_F(NpuMemoryTest, WhatADriverLacksIsSaidOnceAndTheNextStrategyServes) {
  std::vector<std::string> notices;
  NpuMemoryOptions options;
  options.notice = [&](absl::string_view text) { notices.emplace_back(std::string(text)); };
  auto chosen = NpuMemory::Create(place_.device, options);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ((*chosen)->strategy(), MemoryStrategy::kPlaced) << "this driver has no virtual memory";
  EXPECT_FALSE((*chosen)->imports());
  ASSERT_EQ(notices.size(), 2u);
  EXPECT_NE(notices[0].find("virtual memory"), std::string::npos);
  EXPECT_NE(notices[1].find("import"), std::string::npos);
  auto weight = (*chosen)->Allocate(10000, "weight");
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_EQ((*weight)->strategy(), "placed");
  EXPECT_EQ((*chosen)->Import(Source::FromBuffer({}, "none"), 0, 64, "wq").status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(notices.size(), 2u);
}

TEST_F(NpuMemoryTest, PlacedTensorsOfManyPagesHaveMemoryOfTheirOwnAndNothingBesideIt) {
  for (const uint64_t page : {4096, 65536}) {
    const NpuSwitches switches({{"NPUBANK_NPU_PAGE_SIZE", absl::StrCat(page)}});
    auto placed = NpuMemory::Create(place_.device, {.strategy = MemoryStrategy::kPlaced});
    ASSERT_TRUE(placed.ok()) << placed.status();
    const uint64_t many = std::max<uint64_t>(256 << 10, 8 * page);
    auto alone = (*placed)->Allocate(many + 1, "many pages");
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ((*alone)->reserved_bytes(), many + page);
    EXPECT_EQ((*placed)->Usage().held_bytes, many + page);
    auto placed_in_slab = (*placed)->Allocate(many / 2 + 1, "fewer");
    ASSERT_TRUE(placed_in_slab.ok()) << placed_in_slab.status();
    EXPECT_EQ((*placed_in_slab)->reserved_bytes(), many / 2 + 64) << "not to pages";
    EXPECT_EQ((*placed)->Usage().held_bytes, many + page + (1 << 20)) << "a slab";
  }
}

TEST_F(NpuMemoryTest, PlacedTensorsShareASlabAndAnEmptySlabGoes) {
  auto placed = NpuMemory::Create(place_.device, {.strategy = MemoryStrategy::kPlaced});
  ASSERT_TRUE(placed.ok()) << placed.status();
  auto other = (*placed)->Allocate(1 << 20, "fills a slab");
  auto first = (*placed)->Allocate(1000, "one");
  auto second = (*placed)->Allocate(1000, "two");
  ASSERT_TRUE(other.ok() && first.ok() && second.ok());
  EXPECT_EQ(Driver().live_allocations, 2u);
  EXPECT_EQ((*first)->reserved_bytes(), 1024u);
  EXPECT_EQ((*placed)->Usage().live_bytes, (1u << 20) + 2048u);
  EXPECT_EQ((*placed)->Usage().held_bytes, 2u << 20);
  first->reset();
  EXPECT_EQ(Driver().live_allocations, 2u);
  second->reset();
  EXPECT_EQ(Driver().live_allocations, 1u) << "empty slabs are given back";
}

}  // namespace
}  // namespace npubank

// What every strategy of device memory must do beside what any device memory must (bank/device_memory_suite.h),
// whatever the driver lets it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/memory/strategies/strategy.h"
#include "npubank/runtime/memory/strategies/tiled.h"
#include "npubank/runtime/memory/upload.h"
#include "npubank/tests/conformance/memory/fixture.h"

namespace npubank {
namespace {

class MemoryConformance : public MemoryFixture {};

TEST_P(MemoryConformance, BytesArriveAndTheDeviceSeesThem) {
  std::vector<Tensor> tensors;
  for (const uint64_t bytes : {1u, 63u, 64u, 65u, 4095u, 4096u, 65535u, 65536u, 65537u, 300000u,
                               2u << 20, (2u << 20) + 1}) {
    auto tensor = Make(bytes, tensors.size());
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->memory->bytes(), bytes);
    tensors.push_back(*std::move(tensor));
  }
  for (const Tensor& tensor : tensors) {
    ExpectContents(tensor);
    ExpectDeviceSees(tensor);
  }
  ExpectExactBooks();
}

TEST_P(MemoryConformance, LargeTensorsArriveWhole) {
  if (imported()) GTEST_SKIP() << "the files of this suite are small";
  auto tensor = Make((20 << 20) + 77);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ExpectContents(*tensor);
  ExpectDeviceSees(*tensor);
}

TEST_P(MemoryConformance, AddressesAreAlignedForTheDevice) {
  std::vector<Tensor> tensors;
  for (uint64_t i = 0; i < 200; ++i) {
    auto tensor = Make(1 + i * 37, i);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->memory->address()) % kDeviceAlignment, 0u);
    tensors.push_back(*std::move(tensor));
  }
}

TEST_P(MemoryConformance, HintsOfUpToADriversPageAreMetAndMoreIsRefused) {
  if (imported()) GTEST_SKIP() << "pages of a file lie where they lie: the bank asks before it imports";
  std::vector<Tensor> tensors;
  for (uint64_t alignment = 1; alignment <= kMostDeviceAlignment; alignment *= 2) {
    for (const uint64_t bytes : {1u, 100u, 4096u, 10000u, 300000u, 3u << 20}) {
      auto tensor = Make(*memory_, bytes, tensors.size(), {.alignment = alignment});
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->memory->address()) % alignment, 0u) << bytes;
      tensors.push_back(*std::move(tensor));
    }
  }
  for (const Tensor& tensor : tensors) ExpectContents(tensor);
  ExpectExactBooks();
  for (const MemoryHints& hints : {MemoryHints{.alignment = 2 * kMostDeviceAlignment}, MemoryHints{.pool = 1}}) {
    const absl::Status refused = memory_->AllocateAs(4096, "wq", hints).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
    EXPECT_EQ(memory_->CheckHints(hints), refused);
  }
  EXPECT_EQ(memory_->Usage().live_allocations, tensors.size());
}

TEST_P(MemoryConformance, TheStrategyIsSaidAndHostBytesAreThereWhereTheHostMayWrite) {
  auto tensor = Make(5000);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->memory->strategy(), MemoryTestName({GetParam(), 0}));
  const bool writable = device_->integrated() && !imported() && !shared();
  EXPECT_EQ(tensor->memory->host_bytes().size(), writable ? 5000u : 0u);
}

TEST_P(MemoryConformance, WhatIsFreedIsUsedAgainAndNothingMixes) {
  std::vector<Tensor> tensors;
  for (uint64_t round = 0; round < 6; ++round) {
    for (uint64_t i = 0; i < 40; ++i) {
      auto tensor = Make(1000 + (i * 7919 + round * 104729) % 400000, round * 100 + i);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      tensors.push_back(*std::move(tensor));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::swap(tensors[i], tensors.back());
      tensors.pop_back();
    }
    for (const Tensor& tensor : tensors) ExpectContents(tensor);
    ExpectExactBooks();
  }
}

TEST_P(MemoryConformance, AFullDeviceSaysSoAndRecovers) {
  constexpr uint64_t kBytes = 4 << 20;
  std::vector<Tensor> tensors;
  absl::Status full;
  while (full.ok()) {
    Tensor tensor;
    auto memory = memory_->Allocate(kBytes, "layers.7.wq");
    if (memory.ok()) {
      tensor.memory = *std::move(memory);
      full = Write(*memory_, tensor, tensors.size());
    } else {
      full = memory.status();
    }
    if (full.ok()) tensors.push_back(std::move(tensor));
    ASSERT_LT(tensors.size(), 1000u) << "set NPUBANK_NPU_CAPACITY";
  }
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  const DeviceUsage usage = memory_->Usage();
  EXPECT_GT(usage.live_bytes, usage.peak_held_bytes * 85 / 100) << "the device was not full";
  for (const Tensor& tensor : tensors) ExpectContents(tensor);
  tensors.erase(tensors.begin(), tensors.begin() + 4);
  Tensor again;
  auto memory = memory_->Allocate(kBytes, "layers.7.wq");
  ASSERT_TRUE(memory.ok()) << memory.status();
  again.memory = *std::move(memory);
  ASSERT_TRUE(Write(*memory_, again, 99).ok());
  tensors.push_back(std::move(again));
  for (const Tensor& tensor : tensors) ExpectContents(tensor);
  ExpectExactBooks();
}

TEST_P(MemoryConformance, WhenNothingIsLeftTheDriverHoldsNothing) {
  {
    std::vector<Tensor> tensors;
    for (uint64_t i = 0; i < 50; ++i) {
      auto tensor = Make(100 << (i % 13), i);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      tensors.push_back(*std::move(tensor));
    }
    const DeviceUsage usage = memory_->Usage();
    EXPECT_EQ(usage.live_allocations, 50u);
    uint64_t reserved = 0, bytes = 0;
    for (const Tensor& tensor : tensors) {
      reserved += tensor.memory->reserved_bytes();
      bytes += tensor.memory->bytes();
    }
    EXPECT_EQ(usage.live_bytes, reserved);
    EXPECT_EQ(usage.imported_bytes, imported() ? bytes : 0);
    ExpectExactBooks();
  }
  const DeviceUsage usage = memory_->Usage();
  EXPECT_EQ(usage.live_bytes, 0u);
  EXPECT_EQ(usage.live_allocations, 0u);
  EXPECT_EQ(usage.held_bytes, 0u);
  EXPECT_EQ(usage.imported_bytes, 0u);
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_EQ(Driver().live_imports, 0u);
  EXPECT_EQ(Driver().live_physical_memories, 0u);
}

TEST_P(MemoryConformance, AllocationsMayOutliveTheirMemory) {
  auto tensor = Make(70000);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  memory_.reset();
  tensor->memory.reset();
  ExpectNothingLeft("after the last allocation");
}

TEST_P(MemoryConformance, AProducersErrorComesBackAsItIsAndTheTensorCanBeWrittenAgain) {
  if (imported()) GTEST_SKIP() << "imported tensors are not written";
  Tensor tensor;
  auto memory = memory_->Allocate(9 << 20, "tensor");
  ASSERT_TRUE(memory.ok()) << memory.status();
  tensor.memory = *std::move(memory);
  const auto produce = [](uint64_t, absl::Span<std::byte>) {
    return absl::DataLossError("the file shrank");
  };
  EXPECT_EQ(memory_->Write(*tensor.memory, produce), absl::DataLossError("the file shrank"));
  ASSERT_TRUE(Write(*memory_, tensor, 5).ok());
  ExpectContents(tensor);
}

TEST_P(MemoryConformance, WhatOthersMayHaveMappedIsNotWrittenAgain) {
  if (!shared() && !imported()) GTEST_SKIP() << "nobody else sees what this memory holds";
  auto tensor = Make(kFileBytes);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  Tensor before = {.memory = nullptr, .seed = tensor->seed, .base = tensor->base};
  EXPECT_EQ(Write(*memory_, *tensor, 5).code(), absl::StatusCode::kFailedPrecondition);
  before.memory = std::move(tensor->memory);
  ExpectContents(before);
}

TEST_P(MemoryConformance, NonsenseIsRefused) {
  EXPECT_EQ(memory_->Allocate(0, "nothing").status().code(), absl::StatusCode::kInvalidArgument);
  for (const uint64_t bytes : {~uint64_t{0}, ~uint64_t{0} / 2, uint64_t{1} << 46})
    EXPECT_EQ(memory_->Allocate(bytes, "too much").status().code(),
              absl::StatusCode::kResourceExhausted);
  auto tensor = Make(100);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  std::vector<std::byte> out(10);
  EXPECT_FALSE(memory_->Read(*tensor->memory, 91, absl::MakeSpan(out)).ok());
  EXPECT_FALSE(memory_->Read(*tensor->memory, ~uint64_t{0}, absl::MakeSpan(out)).ok());
  ExpectExactBooks();
}

TEST_P(MemoryConformance, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::vector<Tensor> tensors;
      for (uint64_t i = 0; i < 60; ++i) {
        auto tensor = Make(1 + (i * 7919 + t * 31) % 100000, t * 1000 + i);
        ASSERT_TRUE(tensor.ok()) << tensor.status();
        tensors.push_back(*std::move(tensor));
        if (tensors.size() > 8) {
          ExpectContents(tensors[i % 8]);
          tensors.erase(tensors.begin() + i % 8);
        }
      }
      for (const Tensor& tensor : tensors) ExpectContents(tensor);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectExactBooks();
}

NPUBANK_FOR_EVERY_MEMORY(MemoryConformance);

class TileConformance : public MemoryFixture {
 protected:
  // Something that stays, so that not everything goes at once; and as much that came and went, of
  // which an eighth of what stays, and a tile, is kept.
  absl::StatusOr<Tensor> KeepOneAndFreeOne() {
    NPUBANK_ASSIGN_OR_RETURN(Tensor stays, Make(kBytes));
    NPUBANK_RETURN_IF_ERROR(Make(kBytes).status());
    return stays;
  }
  uint64_t TileBytes() const { return Driver().live_physical_memories * Tiled::kTileBytes; }

  static constexpr uint64_t kBytes = 16 << 20;
  static constexpr uint64_t kKept = kBytes / 8 + Tiled::kTileBytes;
  static constexpr uint64_t kRing = 2 * Staging::kPieceBytes;  // where the host cannot write
};

TEST_P(TileConformance, SomeUnusedTilesServeTheNextTensorAndTrimGivesThemBack) {
  auto stays = KeepOneAndFreeOne();
  ASSERT_TRUE(stays.ok()) << stays.status();
  EXPECT_EQ(TileBytes(), kBytes + kKept);
  software_->pfnFailCall("zePhysicalMemCreate", 1, 1, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  auto again = Make(kKept);
  EXPECT_TRUE(again.ok()) << again.status() << ": no new tile was needed";
  again->memory.reset();
  memory_->Trim();
  EXPECT_EQ(TileBytes(), kBytes);
  ExpectContents(*stays);
}

TEST_P(TileConformance, UnusedTilesGoWhenMemoryIsShort) {
  auto stays = KeepOneAndFreeOne();
  ASSERT_TRUE(stays.ok()) << stays.status();
  // More than what is kept, and the driver has no more.
  software_->pfnFailCall("zePhysicalMemCreate", 1, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  auto large = Make(2 * kBytes);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_LE(Driver().peak_bytes, 3 * kBytes + Tiled::kTileBytes + kRing)
      << "what was kept was given back, or used, and not held beside";
  ExpectContents(*stays);
}

// Mapping fails behind every piece in turn: what had been taken of tiles and addresses goes back.
TEST_P(TileConformance, WhatAFailedMappingHadTakenServesTheNextTensor) {
  auto stays = Make(64 << 10);
  ASSERT_TRUE(stays.ok()) << stays.status();
  memory_->Trim();
  const DeviceUsage before = memory_->Usage();
  for (int round = 0; round < 50; ++round) {
    for (const uint64_t piece : {1, 2, 4}) {
      software_->pfnFailCall("zeVirtualMemMap", piece, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
      // Where what was given back makes room it is tried again, and then it succeeds.
      memory_->Allocate(4 * Tiled::kTileBytes, "cannot be mapped").status().IgnoreError();
      software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    }
    EXPECT_LE(TileBytes(), 2 * Tiled::kTileBytes) << "round " << round;
  }
  memory_->Trim();
  EXPECT_EQ(memory_->Usage().held_bytes, before.held_bytes);
  EXPECT_EQ(memory_->Usage().live_bytes, before.live_bytes);
  ExpectContents(*stays);
}

INSTANTIATE_TEST_SUITE_P(Only, TileConformance, ::testing::Values(MemoryKind::kTiled),
                         MemoryTestName);

}  // namespace
}  // namespace npubank

// What every DeviceMemory must do, as GoogleTest tests that run on yours.
//
//   #include "npubank/bank/device_memory_suite.h"   // in one source of a test program
//
//   INSTANTIATE_TEST_SUITE_P(Mine, DeviceMemorySuite, ::testing::Values(DeviceMemoryUnderTest{
//       .name = "cards", .create = [] { return std::make_shared<CardMemory>(); }}),
//       DeviceMemoryName);
//
// It demands what device_memory.h says and the bank relies on: bytes arrive and do not mix, addresses are aligned,
// counts are exact, errors leave nothing behind, a full memory says so and recovers, threads share it.
// Each test has a memory of its own, and at its end nothing may be left in it.
//
// Needs GoogleTest: link npubank::testing. Threads: four, in one of the tests. Cost: up to 40 MiB of the memory, and
// `capacity` in one test; seconds.
#ifndef NPUBANK_BANK_DEVICE_MEMORY_SUITE_H_
#define NPUBANK_BANK_DEVICE_MEMORY_SUITE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/bank/device_memory.h"

namespace npubank {

struct DeviceMemoryUnderTest {
  std::string name;  // letters, digits and underscores: it is part of the tests' names
  std::function<absl::StatusOr<std::shared_ptr<DeviceMemory>>()> create;
  uint64_t capacity = 0;  // bytes, at least 64 MiB: a test fills it; 0: it is not filled
};

inline std::string DeviceMemoryName(const ::testing::TestParamInfo<DeviceMemoryUnderTest>& info) {
  return info.param.name;
}

// Shown by GoogleTest in place of the object's bytes.
inline void PrintTo(const DeviceMemoryUnderTest& memory, std::ostream* out) { *out << memory.name; }

class DeviceMemorySuite : public ::testing::TestWithParam<DeviceMemoryUnderTest> {
 protected:
  // Memory, and the seed of what it must hold.
  struct Tensor {
    std::unique_ptr<DeviceAllocation> memory;
    uint64_t seed = 0;
  };

  void SetUp() override {
    auto created = GetParam().create();
    ASSERT_TRUE(created.ok()) << created.status();
    memory_ = *std::move(created);
    ASSERT_NE(memory_, nullptr);
  }
  void TearDown() override {
    if (memory_ != nullptr) ExpectNothingLeft();
  }

  static std::byte Pattern(uint64_t seed, uint64_t offset) {
    const uint64_t mixed = (offset / 7 + seed * 1000003 + 1) * 0x9E3779B97F4A7C15u;
    return static_cast<std::byte>(mixed >> 56 ^ offset);
  }
  absl::Status Write(Tensor& tensor, uint64_t seed) {
    tensor.seed = seed;
    return memory_->Write(*tensor.memory, [seed](uint64_t offset, absl::Span<std::byte> out) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = Pattern(seed, offset + i);
      return absl::OkStatus();
    });
  }
  absl::StatusOr<Tensor> Make(uint64_t bytes, uint64_t seed) {
    auto memory = memory_->Allocate(bytes, "tensor");
    if (!memory.ok()) return memory.status();
    Tensor tensor{*std::move(memory)};
    if (absl::Status status = Write(tensor, seed); !status.ok()) return status;
    return tensor;
  }
  void ExpectContents(const Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.memory->bytes());
    const absl::Status status = memory_->Read(*tensor.memory, 0, absl::MakeSpan(bytes));
    ASSERT_TRUE(status.ok()) << status;
    for (uint64_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], Pattern(tensor.seed, i))
          << "byte " << i << " of a tensor of " << bytes.size() << " bytes";
    }
  }
  void ExpectNothingLeft() {
    memory_->Trim();
    const DeviceUsage usage = memory_->Usage();
    EXPECT_EQ(usage.live_allocations, 0u);
    EXPECT_EQ(usage.live_bytes, 0u);
    EXPECT_EQ(usage.held_bytes, 0u) << "Trim gives back what is kept for reuse";
    EXPECT_EQ(usage.imported_bytes, 0u);
  }

  std::shared_ptr<DeviceMemory> memory_;
};

TEST_P(DeviceMemorySuite, BytesArriveAndPartsOfThemCanBeRead) {
  std::vector<Tensor> tensors;
  for (const uint64_t bytes : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 300000u, 9u << 20}) {
    auto tensor = Make(bytes, tensors.size());
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->memory->bytes(), bytes);
    EXPECT_GE(tensor->memory->reserved_bytes(), bytes);
    EXPECT_FALSE(tensor->memory->strategy().empty());
    tensors.push_back(*std::move(tensor));
  }
  for (const Tensor& tensor : tensors) ExpectContents(tensor);
  std::vector<std::byte> part(1000);
  ASSERT_TRUE(memory_->Read(*tensors.back().memory, 12345, absl::MakeSpan(part)).ok());
  for (uint64_t i = 0; i < part.size(); ++i) {
    ASSERT_EQ(part[i], Pattern(tensors.back().seed, 12345 + i));
  }
}

TEST_P(DeviceMemorySuite, AddressesAreAlignedAsTheTraitsSayAndNeverTheSame) {
  const uint64_t alignment = memory_->traits().argument_alignment;
  ASSERT_GT(alignment, 0u);
  std::vector<Tensor> tensors;
  for (uint64_t i = 0; i < 100; ++i) {
    auto tensor = Make(1 + i * 37, i);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    ASSERT_NE(tensor->memory->address(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->memory->address()) % alignment, 0u);
    for (const Tensor& other : tensors) {
      EXPECT_NE(tensor->memory->address(), other.memory->address());
    }
    tensors.push_back(*std::move(tensor));
  }
  for (const Tensor& tensor : tensors) ExpectContents(tensor);
}

TEST_P(DeviceMemorySuite, HintsAreMetOrRefusedAndNeverIgnored) {
  std::vector<Tensor> tensors;
  for (const uint64_t pool : {0, 1, 2, 1000000}) {
    for (uint64_t alignment = 1; alignment <= 1 << 22; alignment *= 2) {
      const MemoryHints hints = {.alignment = alignment, .pool = pool};
      const absl::Status check = memory_->CheckHints(hints);
      auto memory = memory_->AllocateAs(5000 + alignment / 64, "tensor", hints);
      ASSERT_EQ(memory.ok(), check.ok()) << hints.ToString() << ": " << memory.status();
      if (!check.ok()) {
        EXPECT_EQ(check.code(), absl::StatusCode::kUnimplemented) << check;
        continue;
      }
      EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->address()) % alignment, 0u);
      Tensor& tensor = tensors.emplace_back(Tensor{*std::move(memory)});
      ASSERT_TRUE(Write(tensor, tensors.size()).ok());
    }
  }
  ASSERT_FALSE(tensors.empty()) << "what every address has is no wish";
  for (const Tensor& tensor : tensors) ExpectContents(tensor);
  EXPECT_EQ(memory_->Usage().live_allocations, tensors.size());
}

TEST_P(DeviceMemorySuite, HostBytesAreTheMemoryItselfWhereTheHostMayWrite) {
  auto tensor = Make(5000, 3);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const absl::Span<std::byte> host = tensor->memory->host_bytes();
  if (host.empty()) return;  // the host may not
  ASSERT_EQ(host.size(), 5000u);
  for (uint64_t i = 0; i < host.size(); ++i) host[i] = Pattern(4, i);
  tensor->seed = 4;
  ExpectContents(*tensor);
}

TEST_P(DeviceMemorySuite, WhatIsFreedIsUsedAgainAndNothingMixes) {
  std::vector<Tensor> tensors;
  for (uint64_t round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 30; ++i) {
      auto tensor = Make(1000 + (i * 7919 + round * 104729) % 200000, round * 100 + i);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      tensors.push_back(*std::move(tensor));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::swap(tensors[i], tensors.back());
      tensors.pop_back();
    }
    for (const Tensor& tensor : tensors) ExpectContents(tensor);
  }
}

TEST_P(DeviceMemorySuite, UsageIsTheSumOfWhatIsAlive) {
  std::vector<Tensor> tensors;
  uint64_t reserved = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    auto tensor = Make(100 << (i % 13), i);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    reserved += tensor->memory->reserved_bytes();
    tensors.push_back(*std::move(tensor));
  }
  const DeviceUsage usage = memory_->Usage();
  EXPECT_EQ(usage.live_allocations, 20u);
  EXPECT_EQ(usage.live_bytes, reserved);
  EXPECT_GE(usage.peak_bytes, usage.live_bytes);
  tensors.clear();
  EXPECT_EQ(memory_->Usage().live_bytes, 0u);
  EXPECT_GE(memory_->Usage().peak_bytes, reserved);
}

TEST_P(DeviceMemorySuite, AProducersErrorComesBackAsItIsAndTheTensorCanBeWrittenAgain) {
  Tensor tensor;
  auto memory = memory_->Allocate(3 << 20, "tensor");
  ASSERT_TRUE(memory.ok()) << memory.status();
  tensor.memory = *std::move(memory);
  const auto produce = [](uint64_t, absl::Span<std::byte>) {
    return absl::DataLossError("the file shrank");
  };
  EXPECT_EQ(memory_->Write(*tensor.memory, produce), absl::DataLossError("the file shrank"));
  ASSERT_TRUE(Write(tensor, 5).ok());
  ExpectContents(tensor);
}

TEST_P(DeviceMemorySuite, BytesAreAskedForInAscendingOrderEachOnce) {
  auto memory = memory_->Allocate((5 << 20) + 3, "tensor");
  ASSERT_TRUE(memory.ok()) << memory.status();
  uint64_t next = 0;
  const absl::Status status =
      memory_->Write(**memory, [&next](uint64_t offset, absl::Span<std::byte> out) {
        EXPECT_EQ(offset, next);
        next = offset + out.size();
        for (std::byte& byte : out) byte = std::byte{1};
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(next, (5u << 20) + 3);
}

TEST_P(DeviceMemorySuite, NonsenseIsRefusedAndLeavesNothing) {
  EXPECT_EQ(memory_->Allocate(0, "nothing").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory_->Allocate(~uint64_t{0}, "too much").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory_->Allocate(uint64_t{1} << 62, "too much").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  auto tensor = Make(100, 1);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  std::vector<std::byte> out(10);
  EXPECT_FALSE(memory_->Read(*tensor->memory, 91, absl::MakeSpan(out)).ok());
  EXPECT_FALSE(memory_->Read(*tensor->memory, ~uint64_t{0} - 3, absl::MakeSpan(out)).ok());
  ExpectContents(*tensor);
}

TEST_P(DeviceMemorySuite, AFullMemorySaysSoAndRecovers) {
  constexpr uint64_t kBytes = 4 << 20;
  if (GetParam().capacity == 0) GTEST_SKIP() << "no capacity was given";
  std::vector<Tensor> tensors;
  absl::Status full;
  while (full.ok() && tensors.size() <= GetParam().capacity / kBytes) {
    auto tensor = Make(kBytes, tensors.size());
    full = tensor.status();
    if (tensor.ok()) tensors.push_back(*std::move(tensor));
  }
  ASSERT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  ASSERT_GT(tensors.size(), 4u);
  ExpectContents(tensors.front());
  ExpectContents(tensors.back());
  tensors.resize(tensors.size() - 2);
  auto again = Make(kBytes, 99);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectContents(*again);
  ExpectContents(tensors.back());
}

TEST_P(DeviceMemorySuite, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::vector<Tensor> tensors;
      for (uint64_t i = 0; i < 30; ++i) {
        auto tensor = Make(1 + (i * 7919 + t * 31) % 50000, t * 1000 + i);
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
}

}  // namespace npubank

#endif  // NPUBANK_BANK_DEVICE_MEMORY_SUITE_H_

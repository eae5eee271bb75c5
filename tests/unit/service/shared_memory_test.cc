#include "npubank/bank/service/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/gate.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank::service {
namespace {

constexpr uint64_t kPage = Segment::kPage;

auto Filled(int value) {
  return [value](uint64_t, absl::Span<std::byte> out) {
    std::memset(out.data(), value, out.size());
    return absl::OkStatus();
  };
}

class SharedMemoryTest : public ::testing::Test {
 protected:
  using Memory = std::unique_ptr<DeviceAllocation>;

  Memory Make(uint64_t bytes, int value = 1) {
    Memory made = memory_->Allocate(bytes, "tensor").value();
    const absl::Status written = memory_->Write(*made, Filled(value));
    EXPECT_TRUE(written.ok()) << written;
    return made;
  }
  std::shared_ptr<const Segment> Share(const Memory& memory) {
    return memory_->SealedSegment(*memory->file()).value();
  }
  bool Holds(const Memory& memory, int value) {
    std::vector<std::byte> bytes(memory->bytes());
    EXPECT_TRUE(memory_->Read(*memory, 0, absl::MakeSpan(bytes)).ok());
    return bytes == std::vector<std::byte>(bytes.size(), static_cast<std::byte>(value));
  }
  uint64_t SystemCounts() const { return memory_->DriverBytes().value(); }

  std::shared_ptr<SharedMemory> memory_ = SharedMemory::Create({.huge_pages = false}).value();
};

TEST_F(SharedMemoryTest, LargeTensorsHaveASegmentEachAndSmallOnesShareOnWholePages) {
  const Memory large = Make(SharedMemory::kOwnSegmentBytes);
  const Memory other = Make(SharedMemory::kOwnSegmentBytes + 1);
  EXPECT_NE(large->file()->descriptor, other->file()->descriptor);
  EXPECT_EQ(other->file()->offset, 0u);
  EXPECT_TRUE(Share(large)->sealed());
  std::vector<Memory> small;
  for (int i = 0; i < 100; ++i) small.push_back(Make(1 + i * 100, i));
  std::set<uint64_t> offsets;
  for (const Memory& memory : small) {
    EXPECT_EQ(memory->file()->descriptor, small[0]->file()->descriptor);
    EXPECT_EQ(memory->file()->offset % kPage, 0u);
    EXPECT_TRUE(offsets.insert(memory->file()->offset).second);
  }
  EXPECT_EQ(memory_->Segments().size(), 3u);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Holds(small[i], i)) << i;
}

TEST_F(SharedMemoryTest, WhatHasNotBeenWrittenLiesNowhereYet) {
  const Memory memory = memory_->Allocate(5000, "norm").value();
  EXPECT_EQ(memory->file(), nullptr);
  std::byte byte;
  EXPECT_EQ(memory_->Read(*memory, 0, absl::MakeSpan(&byte, 1)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SystemCounts(), 0u);
  EXPECT_EQ(memory_->Usage().live_bytes, 2 * kPage) << "but it has its room";
  EXPECT_EQ(memory_->Usage().asked_bytes, 0u) << "which the system knows nothing of";
  EXPECT_EQ(memory_->SealedSegment({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SharedMemoryTest, AHandedOutSmallTensorIsInASealedSegmentAndTheNextGoesIntoAnother) {
  const Memory first = Make(100, 1);
  EXPECT_FALSE(memory_->Segments()[0]->sealed()) << "there is room for others";
  const auto segment = Share(first);
  EXPECT_TRUE(segment->sealed());
  EXPECT_EQ(segment->sealed_bytes(), kPage);
  EXPECT_EQ(Share(first), segment) << "once";
  const Memory next = Make(100, 2);
  EXPECT_NE(Share(next), segment);
  EXPECT_TRUE(Holds(first, 1) && Holds(next, 2));
}

// The one that is under way may take for ever: a stranger's recipe.
TEST_F(SharedMemoryTest, NobodyWaitsForAnothersEvaluationToGetASmallTensor) {
  const Memory done = Make(100, 1);
  const Memory slow = memory_->Allocate(100, "slow").value();
  Gate gate;
  std::thread evaluating([&] {
    const absl::Status status =
        memory_->Write(*slow, [&](uint64_t offset, absl::Span<std::byte> out) {
          gate.Pass();
          return Filled(2)(offset, out);
        });
    EXPECT_TRUE(status.ok()) << status;
  });
  gate.AwaitArrival();
  EXPECT_TRUE(Share(done)->sealed());
  gate.Open();
  evaluating.join();
  EXPECT_TRUE(Holds(slow, 2));
  EXPECT_NE(slow->file()->descriptor, done->file()->descriptor);
}

TEST_F(SharedMemoryTest, MemoryGoesBackWithItsTensorAndOfASealedSharedSegmentWithTheLast) {
  Memory large = Make(3 << 20);
  Memory a = Make(kPage), b = Make(2 * kPage), c = Make(kPage);
  EXPECT_EQ(SystemCounts(), (3 << 20) + 4 * kPage);
  large.reset();
  EXPECT_EQ(SystemCounts(), 4 * kPage);
  b.reset();
  EXPECT_EQ(SystemCounts(), 2 * kPage) << "nobody else had it yet";
  EXPECT_EQ(memory_->Usage().held_bytes, 2 * kPage);
  Share(a);
  a.reset();
  EXPECT_EQ(memory_->Usage().live_bytes, kPage);
  EXPECT_EQ(memory_->Usage().held_bytes, 2 * kPage) << "what it costs is said";
  EXPECT_EQ(SystemCounts(), 2 * kPage);
  c.reset();
  EXPECT_EQ(memory_->Usage().held_bytes, 0u);
  EXPECT_TRUE(memory_->Segments().empty());
}

TEST_F(SharedMemoryTest, TheCapacityHoldsForWhatSegmentsTakeNotForWhatIsAlive) {
  memory_ = SharedMemory::Create({.capacity = 4 * kPage, .huge_pages = false}).value();
  Memory a = Make(2 * kPage);
  const Memory b = Make(kPage);
  Share(a);
  a.reset();  // its pages stay, with b's
  const auto refused = memory_->Allocate(2 * kPage, "wq");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("'wq'"));
  EXPECT_TRUE(memory_->Allocate(kPage, "wk").ok());
}

TEST_F(SharedMemoryTest, AFailedSmallWriteLeavesNothingBehind) {
  const Memory kept = Make(100, 1);
  const Memory failed = memory_->Allocate(100, "failed").value();
  const auto produce = [](uint64_t, absl::Span<std::byte>) {
    return absl::DataLossError("the file shrank");
  };
  EXPECT_EQ(memory_->Write(*failed, produce), absl::DataLossError("the file shrank"));
  EXPECT_EQ(SystemCounts(), kPage);
  EXPECT_EQ(failed->file(), nullptr);
}

TEST_F(SharedMemoryTest, PagesOfLargeSegmentsAreJoinedAndNoByteOrCountChanges) {
  memory_ = SharedMemory::Create({.huge_pages = true}).value();
  const Memory large = Make((6 << 20) + 5000, 7);
  std::vector<Memory> small;
  for (int i = 0; i < 6; ++i) small.push_back(Make(1 << 20, i));
  small.erase(small.begin() + 2);  // a hole, which stays one
  Share(small[0]);
  std::vector<Memory> whole;  // the next segment, which is not written in huge pages and has no hole
  for (int i = 0; i < 3; ++i) whole.push_back(Make(1 << 20, 10 + i));
  Share(whole[0]);
  const uint64_t before = SystemCounts();
  memory_->FinishHugePages();
  const HugePages::Counts counts = memory_->huge_pages();
  EXPECT_EQ(counts.joined_bytes + counts.refused_bytes, 4 * HugePages::kBytes)
      << "three of the large one, one of the small ones without a hole";
  EXPECT_EQ(SystemCounts(), before);
  EXPECT_TRUE(Holds(large, 7) && Holds(small[0], 0) && Holds(whole[2], 12));
  if (counts.joined_bytes == 0) GTEST_SKIP() << "this system joins no pages of shared memory";
}

TEST_F(SharedMemoryTest, WhatIsFreedWhileItsPagesAreJoinedIsFree) {
  memory_ = SharedMemory::Create({.huge_pages = true}).value();
  for (int round = 0; round < 20; ++round) {
    const Memory stays = Make(4 << 20, round);
    { const Memory goes = Make(8 << 20); }
    EXPECT_EQ(memory_->Segments().size(), 1u);
    EXPECT_EQ(SystemCounts(), 4u << 20);
    EXPECT_TRUE(Holds(stays, round));
  }
  const Memory last = Make(64 << 20);
  memory_.reset();  // with work left
}

// Allocations, writes that fail, hand-outs and frees of four threads; each tensor is remembered only
// as the value that fills it.
TEST_F(SharedMemoryTest, ThreadsThatShareAndFreeInAnyOrderMixNothingUp) {
  const uint64_t seed = PrintedSeed();
  memory_ = SharedMemory::Create({.huge_pages = true}).value();
  const auto run = [&](uint32_t thread) {
    std::mt19937_64 random(seed + thread);
    std::vector<std::pair<Memory, int>> tensors;
    for (int step = 0; step < Repetitions(600) && !HasFailure(); ++step) {
      const uint64_t what = random() % 10;
      if (tensors.size() < 4 || (what < 5 && tensors.size() < 40)) {
        const uint64_t bytes = random() % 50 == 0 ? 2 << 20 : 1 + random() % 100000;
        Memory memory = memory_->Allocate(bytes, "tensor").value();
        const int value = static_cast<int>(random() % 256);
        if (what == 0) {
          const auto fail = [](uint64_t, auto) { return absl::CancelledError(); };
          EXPECT_FALSE(memory_->Write(*memory, fail).ok());
        }
        EXPECT_TRUE(memory_->Write(*memory, Filled(value)).ok());
        tensors.emplace_back(std::move(memory), value);
        continue;
      }
      auto& chosen = tensors[random() % tensors.size()];
      EXPECT_TRUE(Holds(chosen.first, chosen.second));
      if (what < 7) {
        EXPECT_TRUE(Share(chosen.first)->sealed());
      } else {
        std::swap(chosen, tensors.back());
        tensors.pop_back();
      }
    }
    for (const auto& [memory, value] : tensors) EXPECT_TRUE(Holds(memory, value));
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_->Usage().held_bytes, 0u);
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  EXPECT_EQ(SystemCounts(), 0u);
}

TEST_F(SharedMemoryTest, ABankOnItAuditsClean) {
  const auto bank = Bank::Create(memory_, {});
  std::vector<Lease> leases;
  for (const int64_t rows : {1, 100, 1 << 18}) {
    const auto source = Source::FromBuffer(std::vector<std::byte>(rows * 24), "values");
    const auto type =
        TensorType::Create(ElementType::kF32, Shape::Create({rows, 6}).value()).value();
    const auto tensor = LazyTensor::Constant(source, 0, type, "values");
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    auto lease = bank->Load("model", tensor->Convert(ElementType::kF16).value());
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_NE(lease->file(), nullptr);
    leases.push_back(*std::move(lease));
  }
  EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
  EXPECT_EQ(bank->Audit().driver_bytes_apart, 0);
  EXPECT_TRUE(memory_->SealedSegment(*leases[0].file()).ok());
  leases.clear();
  EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
  EXPECT_EQ(SystemCounts(), 0u);
}

}  // namespace
}  // namespace npubank::service

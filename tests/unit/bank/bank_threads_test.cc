#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/gate.h"
#include "npubank/tests/support/hooked_memory.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

constexpr int64_t kElements = 64;

class BankThreadsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    bank_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }

  void AwaitWaits(uint64_t count) {
    while (bank_->Totals().waits < count) std::this_thread::yield();
  }

  std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>();
  std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {});
};

// Invariant 3.
TEST_F(BankThreadsTest, OneEvaluationPerUidWhoeverAsks) {
  constexpr int kThreads = 8;
  const TestWeights weights(6);
  std::atomic<int> finished{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const Owner owner = bank_->AddOwner("submodel");
      std::vector<Uid> uids;
      const std::vector<LazyTensor> tensors = weights.Submodel();
      for (size_t i = 0; i < tensors.size(); ++i) {
        uids.push_back(bank_->Register(owner, tensors[i], TestWeights::Name(i)).value().uid);
      }
      ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
      for (size_t i = 0; i < uids.size(); ++i) {
        std::vector<std::byte> bytes(tensors[i].type().bytes());
        ASSERT_TRUE(bank_->Read(uids[i], 0, absl::MakeSpan(bytes)).ok());
        EXPECT_EQ(bytes, weights.Expected(i));
        EXPECT_TRUE(tensors[i].detached());
      }
      // Nobody leaves before all have evaluated, or the last would rightly evaluate again.
      ++finished;
      while (finished < kThreads) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bank_->Totals().evaluations, weights.size());
}

TEST_F(BankThreadsTest, ThoseWhoWaitGetTheSameStatus) {
  Gate gate;
  const auto source = ScriptedSource::Make("weights", CountingFloats(kElements));
  source->on_read = [&] { gate.Pass(); };
  source->FailRead(1);  // only once: who evaluated a second time would succeed
  const Owner owner = bank_->AddOwner("prefill");
  const Uid uid = bank_->Register(owner, VectorsOver(source, kElements)[0], "wq").value().uid;

  absl::Status first, second;
  std::thread evaluates([&] { first = bank_->EvaluateAndAllocate(owner); });
  gate.AwaitArrival();
  std::thread waits([&] { second = bank_->Get(uid).status(); });
  AwaitWaits(1);
  gate.Open();
  evaluates.join();
  waits.join();
  EXPECT_TRUE(absl::IsDataLoss(first)) << first;
  EXPECT_EQ(first, second);
  EXPECT_TRUE(bank_->Get(uid).ok()) << "and the next one tries again";
}

// Invariant 4.
TEST_F(BankThreadsTest, ALeaseNeverSeesBytesThatAreNotAllThere) {
  Gate gate;
  const auto source = ScriptedSource::Make("weights", CountingFloats(kElements));
  source->on_read = [&] { gate.Pass(); };
  const Owner owner = bank_->AddOwner("prefill");
  const Uid uid = bank_->Register(owner, VectorsOver(source, kElements)[0], "wq").value().uid;
  std::thread evaluates([&] { EXPECT_TRUE(bank_->EvaluateAndAllocate(owner).ok()); });
  gate.AwaitArrival();
  std::atomic<bool> got{false};
  std::thread waits([&] {
    const Lease lease = bank_->Get(uid).value();
    got = true;
    EXPECT_EQ(HostBytesAt(lease.address(), kElements * 4), CountingFloats(kElements));
  });
  AwaitWaits(1);
  EXPECT_FALSE(got);
  gate.Open();
  evaluates.join();
  waits.join();
}

TEST_F(BankThreadsTest, GetDoesNotWaitForTheRestOfALoad) {
  Gate gate;
  const auto ready = ScriptedSource::Make("ready", CountingFloats(kElements));
  const auto slow = ScriptedSource::Make("slow", CountingFloats(kElements));
  slow->on_read = [&] { gate.Pass(); };
  const Owner owner = bank_->AddOwner("prefill");
  const Uid first = bank_->Register(owner, VectorsOver(ready, kElements)[0], "first").value().uid;
  ASSERT_TRUE(bank_->Register(owner, VectorsOver(slow, kElements)[0], "second").ok());
  std::thread evaluates([&] { EXPECT_TRUE(bank_->EvaluateAndAllocate(owner).ok()); });
  gate.AwaitArrival();
  EXPECT_TRUE(bank_->Get(first).ok()) << "while the second is still being read";
  gate.Open();
  evaluates.join();
}

// Invariant 5: were the lock held over an evaluation, nothing else here could run.
TEST_F(BankThreadsTest, NothingWaitsForAnEvaluationThatDoesNotNeedIt) {
  Gate gate;
  const auto slow = ScriptedSource::Make("slow", CountingFloats(kElements));
  slow->on_read = [&] { gate.Pass(); };
  const Owner prefill = bank_->AddOwner("prefill");
  const LazyTensor tensor = VectorsOver(slow, kElements)[0];
  ASSERT_TRUE(bank_->Register(prefill, tensor, "slow").ok());
  std::thread evaluates([&] { EXPECT_TRUE(bank_->EvaluateAndAllocate(prefill).ok()); });
  gate.AwaitArrival();
  {
    const TestWeights weights(1);
    const Owner kvcache = bank_->AddOwner("kvcache");
    EXPECT_TRUE(bank_->Register(kvcache, VectorsOver(slow, kElements)[0], "slow").value().hit);
    const Uid other = bank_->Register(kvcache, weights.Submodel()[0], "other").value().uid;
    EXPECT_TRUE(bank_->Get(other).ok());
    EXPECT_EQ(bank_->Snapshot().tensors[0].state, "evaluating");
  }
  gate.Open();
  evaluates.join();
}

TEST_F(BankThreadsTest, AnOwnerDroppedWhileItLoadsGetsCancelledAndLeavesNothing) {
  Gate gate;
  const auto source = ScriptedSource::Make("weights", CountingFloats(3 * kElements));
  source->on_read = [&] { gate.Pass(); };
  auto owner = std::make_unique<Owner>(bank_->AddOwner("prefill"));
  for (const LazyTensor& tensor : VectorsOver(source, kElements)) {
    ASSERT_TRUE(bank_->Register(*owner, tensor, "w").ok());
  }
  absl::Status status;
  std::thread evaluates([&] { status = bank_->EvaluateAndAllocate(*owner); });
  gate.AwaitArrival();
  owner.reset();
  gate.Open();
  evaluates.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
}

// Of several pieces, so that there is something left to cancel after the first.
constexpr int64_t kManyPieces = 1 << 20;

TEST_F(BankThreadsTest, WhatOthersWaitForGoesOnWhenItsOwnLoadIsCancelled) {
  Gate gate;
  const auto source = ScriptedSource::Make("weights", CountingFloats(2 * kManyPieces));
  const std::vector<LazyTensor> tensors = VectorsOver(source, kManyPieces);
  const Owner prefill = bank_->AddOwner("prefill");
  const Uid alone = bank_->Register(prefill, tensors[0], "alone").value().uid;
  ASSERT_TRUE(bank_->Get(alone).ok());
  const uint64_t reads = source->reads();
  ASSERT_GT(reads, 1u);
  const Uid uid = bank_->Register(prefill, tensors[1], "wq").value().uid;
  source->on_read = [&] { gate.Pass(); };
  std::atomic<bool> stop{false};
  LoadOptions options;
  options.cancelled = [&] { return stop.load(); };
  std::thread evaluates([&] { (void)bank_->EvaluateAndAllocate(prefill, options); });
  gate.AwaitArrival();
  absl::Status second;
  std::thread waits([&] { second = bank_->Get(uid).status(); });
  AwaitWaits(1);
  stop = true;
  gate.Open();
  evaluates.join();
  waits.join();
  EXPECT_TRUE(second.ok()) << second;
  EXPECT_EQ(source->reads(), 2 * reads) << "it was made once";
}

TEST_F(BankThreadsTest, WhatNobodyElseWaitsForIsCancelledWithItsLoad) {
  Gate gate;
  const auto source = ScriptedSource::Make("weights", CountingFloats(kManyPieces));
  source->on_read = [&] { gate.Pass(); };
  const Owner prefill = bank_->AddOwner("prefill");
  const Owner kvcache = bank_->AddOwner("kvcache");
  const LazyTensor tensor = VectorsOver(source, kManyPieces)[0];
  ASSERT_TRUE(bank_->Register(prefill, tensor, "wq").ok());
  ASSERT_TRUE(bank_->Register(kvcache, VectorsOver(source, kManyPieces)[0], "wq").ok());
  std::atomic<bool> stop{false};
  LoadOptions options;
  options.cancelled = [&] { return stop.load(); };
  absl::Status first, second;
  std::thread evaluates([&] { first = bank_->EvaluateAndAllocate(prefill, options); });
  gate.AwaitArrival();
  std::thread waits([&] { second = bank_->EvaluateAndAllocate(kvcache, options); });
  AwaitWaits(1);
  stop = true;
  waits.join();  // it waits no more, and is no reason to go on
  gate.Open();
  evaluates.join();
  EXPECT_TRUE(absl::IsCancelled(second)) << second;
  EXPECT_TRUE(absl::IsCancelled(first)) << first;
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
}

TEST_F(BankThreadsTest, ASnapshotIsOfOneMoment) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 100;
  const TestWeights weights(4);
  std::atomic<int> finished{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const Owner owner = bank_->AddOwner(absl::StrCat(t, ".", round));
        for (const LazyTensor& tensor : weights.Submodel()) {
          ASSERT_TRUE(bank_->Register(owner, tensor, "w").ok());
        }
        ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
      }
      ++finished;
    });
  }
  while (finished < kThreads) {
    const BankSnapshot snapshot = bank_->Snapshot();
    uint64_t bytes = 0, device_bytes = 0, registrations = 0;
    const std::set<std::string> owners(snapshot.owners.begin(), snapshot.owners.end());
    for (const TensorSnapshot& tensor : snapshot.tensors) {
      bytes += tensor.bytes;
      device_bytes += tensor.device_bytes;
      registrations += tensor.hits + 1;
      for (const std::string& owner : tensor.owners) EXPECT_EQ(owners.count(owner), 1u) << owner;
    }
    EXPECT_EQ(snapshot.unique_bytes, bytes);
    EXPECT_EQ(snapshot.device_bytes, device_bytes);
    EXPECT_GE(snapshot.registrations, registrations) << "those of tensors that are gone as well";
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(BankThreadsTest, WhoWaitsForAnothersEvaluationCanBeCancelled) {
  Gate gate;
  const auto source = ScriptedSource::Make("weights", CountingFloats(kElements));
  source->on_read = [&] { gate.Pass(); };
  const Owner prefill = bank_->AddOwner("prefill");
  const Owner kvcache = bank_->AddOwner("kvcache");
  const LazyTensor tensor = VectorsOver(source, kElements)[0];
  ASSERT_TRUE(bank_->Register(prefill, tensor, "wq").ok());
  ASSERT_TRUE(bank_->Register(kvcache, VectorsOver(source, kElements)[0], "wq").ok());
  absl::Status first, second;
  std::thread evaluates([&] { first = bank_->EvaluateAndAllocate(prefill); });
  gate.AwaitArrival();
  std::atomic<bool> stop{false};
  LoadOptions options;
  options.cancelled = [&] { return stop.load(); };
  std::thread waits([&] { second = bank_->EvaluateAndAllocate(kvcache, options); });
  AwaitWaits(1);
  stop = true;
  waits.join();  // while the evaluation is still held up
  EXPECT_TRUE(absl::IsCancelled(second)) << second;
  EXPECT_TRUE(absl::StrContains(second.message(), "'wq'")) << second;
  gate.Open();
  evaluates.join();
  EXPECT_TRUE(first.ok()) << "it was not its wait: " << first;
  EXPECT_TRUE(bank_->EvaluateAndAllocate(kvcache).ok());
}

// Each lets go of its source right before it becomes resident, and there waits for the others: what
// was looked up before that knows of none of them.
TEST_F(BankThreadsTest, EqualContentsThatAreEvaluatedAtTheSameMomentShareOneAllocation) {
  constexpr int kThreads = 3;
  Mutex mutex;
  CondVar changed;
  int arrived = 0;
  const auto let_go = [&](Source*) {
    MutexLock lock(mutex);
    ++arrived;
    changed.NotifyAll();
    while (arrived < kThreads) changed.Wait(mutex);
  };
  const Owner owner = bank_->AddOwner("submodel");
  std::vector<std::shared_ptr<Source>> kept;
  std::vector<Uid> uids;
  for (int t = 0; t < kThreads; ++t) {
    kept.push_back(ScriptedSource::Make(absl::StrCat("file ", t), CountingFloats(kElements)));
    const std::shared_ptr<Source> source(kept.back().get(), let_go);
    uids.push_back(bank_->Register(owner, VectorsOver(source, kElements)[0], "w").value().uid);
  }
  std::vector<std::thread> threads;
  for (const Uid uid : uids) threads.emplace_back([&, uid] { EXPECT_TRUE(bank_->Get(uid).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_->Usage().live_allocations, 1u);
  EXPECT_EQ(bank_->Totals().content_bytes_saved, (kThreads - 1) * 4096u);
  for (const Uid uid : uids) {
    std::vector<std::byte> bytes(kElements * sizeof(float));
    ASSERT_TRUE(bank_->Read(uid, 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, CountingFloats(kElements));
  }
}

TEST_F(BankThreadsTest, EveryOperationMayRunBesideEveryOther) {
  constexpr int kThreads = 4;
  const int rounds = Repetitions(400);
  const uint64_t seed = PrintedSeed();
  const TestWeights weights(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (int round = 0; round < rounds; ++round) {
        Owner owner = bank_->AddOwner(absl::StrCat("submodel ", t));
        const std::vector<LazyTensor> tensors = weights.Submodel();
        for (size_t i = 0; i < tensors.size(); ++i) {
          if (random() % 3 == 0) continue;
          const Uid uid = bank_->Register(owner, tensors[i], TestWeights::Name(i)).value().uid;
          if (random() % 3 != 0) continue;
          const absl::StatusOr<Lease> lease = bank_->Get(uid);
          ASSERT_TRUE(lease.ok()) << lease.status();
          EXPECT_EQ(HostBytesAt(lease->address(), lease->type().bytes()), weights.Expected(i));
        }
        if (random() % 2 == 0) {
          ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
        }
        if (random() % 8 == 0) bank_->Audit();
        if (random() % 8 == 0) bank_->Snapshot();
        if (random() % 2 == 0) owner.Release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

// The victims of one load may be the room of two: who comes second waits until they are gone.
TEST_F(BankThreadsTest, WhatIsStillLeavingIsWaitedForInsteadOfRefused) {
  constexpr uint64_t kPage = 4096;
  for (const bool by_budget : {true, false}) {
    SCOPED_TRACE(by_budget ? "the budget is full" : "the device is full");
    const uint64_t room = 2 * kPage;
    Gate gate;
    const auto memory = std::make_shared<HookedMemory>(
        HostMemory::Options{.capacity = by_budget ? uint64_t{1} << 30 : room});
    memory->before_free = [&] { gate.Pass(); };
    const auto bank = Bank::Create(
        memory, {.budget_bytes = by_budget ? room : ~uint64_t{0}, .keep_unowned = true});
    const auto source = ScriptedSource::Make("w", CountingFloats(2 * kPage / 4));
    {
      const Owner old = bank->AddOwner("old");
      ASSERT_TRUE(bank->Register(old, VectorsOver(source, 2 * kPage / 4)[0], "old").ok());
      ASSERT_TRUE(bank->EvaluateAndAllocate(old).ok());
    }
    const Owner owner = bank->AddOwner("new");
    std::vector<Uid> uids;
    for (const LazyTensor& tensor : VectorsOver(source, kPage / 4)) {
      uids.push_back(bank->Register(owner, tensor, "new").value().uid);
    }
    absl::Status first, second;
    std::thread evicts([&] { first = bank->Get(uids[0]).status(); });
    gate.AwaitArrival();
    std::atomic<bool> done{false};
    std::thread comes_second([&] {
      second = bank->Get(uids[1]).status();
      done = true;
    });
    while (bank->Totals().waits == 0 && !done) std::this_thread::yield();
    EXPECT_FALSE(done) << second;
    gate.Open();
    evicts.join();
    comes_second.join();
    EXPECT_TRUE(first.ok()) << first;
    EXPECT_TRUE(second.ok()) << second;
  }
}

// With a budget that is too small, sleepers, content sharing and a cache: more threads than room.
TEST_F(BankThreadsTest, EveryOperationMayRunBesideEveryOtherWhileTensorsComeAndGo) {
  constexpr int kThreads = 4;
  const int rounds = Repetitions(600);
  constexpr uint64_t kPage = 4096;
  const uint64_t seed = PrintedSeed();
  const TestWeights weights(4);
  const TemporaryFolder folder;
  const auto memory = std::make_shared<HostMemory>();
  const auto cache = CacheFile::Open({.path = folder.File("cache")});
  const auto bank =
      Bank::Create(memory, {.budget_bytes = 5 * kPage, .keep_unowned = true, .cache = cache});
  const auto fits_or_full = [](const absl::Status& status) {
    return status.ok() || absl::IsResourceExhausted(status);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (int round = 0; round < rounds; ++round) {
        const Owner owner = bank->AddOwner(absl::StrCat(t), {.index = weights.Index()});
        const std::vector<LazyTensor> tensors = weights.Submodel();
        std::vector<size_t> mine;
        for (size_t i = 0; i < tensors.size(); ++i) {
          if (random() % 2 == 0) continue;
          ASSERT_TRUE(bank->Register(owner, tensors[i], TestWeights::Name(i)).ok());
          mine.push_back(i);
        }
        for (int step = 0; step < 6 && !mine.empty(); ++step) {
          const size_t i = mine[random() % mine.size()];
          switch (random() % 6) {
            case 0:
              ASSERT_TRUE(fits_or_full(bank->EvaluateAndAllocate(owner)));
              break;
            case 1:
              ASSERT_TRUE(
                  fits_or_full(bank->Sleep(owner, {.keep_host_copy = random() % 4 == 0}).status()));
              ASSERT_TRUE(fits_or_full(bank->EvaluateAndAllocate(owner)));
              break;
            case 2:
              bank->Trim();
              break;
            case 3:
              ASSERT_TRUE(cache->Save().ok());
              break;
            default: {
              const absl::StatusOr<Lease> lease = bank->Get(tensors[i].uid());
              ASSERT_TRUE(fits_or_full(lease.status())) << lease.status();
              if (!lease.ok()) break;
              ASSERT_EQ(HostBytesAt(lease->address(), lease->type().bytes()), weights.Expected(i));
            }
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bank->Trim();
  EXPECT_EQ(memory->Usage().live_allocations, 0u);
  EXPECT_EQ(bank->Totals().budget_used, 0u);
  EXPECT_EQ(bank->Totals().unique_tensors, 0u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  for (const std::string& problem : cache->Report().problems) ADD_FAILURE() << problem;
}

}  // namespace
}  // namespace npubank

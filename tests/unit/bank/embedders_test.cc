// What an embedder asks of a bank beside weights: their own threads, what a lease is, what is known of a tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/log.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;

// Somebody's pool, which counts what it is asked for.
class CountingWorkers final : public Workers {
 public:
  int count() const override { return 2; }
  int runs() const { return runs_; }

 private:
  void Run(int64_t times, absl::FunctionRef<void()> work) override {
    ++runs_;
    for (int64_t i = 0; i < times; ++i) work();
  }
  std::atomic<int> runs_ = 0;
};

LazyTensor LargeSplat() {
  const TensorType type =
      TensorType::Create(ElementType::kF16, Shape::Create({4096, 1024}).value()).value();
  return LazyTensor::Splat(type, 0x3C00).value();
}

TEST(Embedders, WeightsAreEvaluatedOnTheirThreads) {
  const auto workers = std::make_shared<CountingWorkers>();
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.workers = workers});
  ASSERT_TRUE(bank->Load("splat", LargeSplat()).ok());
  EXPECT_GT(workers->runs(), 0);
}

TEST(Embedders, ALeaseSaysWhatItsTensorIsAndCosts) {
  const TestWeights weights(1);
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const Owner owner = bank->AddOwner("mine");
  ASSERT_TRUE(bank->Register(owner, weights.Submodel()[0], "layer0").ok());
  const Lease lease = bank->Load(owner).value().front();
  EXPECT_EQ(lease.bytes(), weights.Expected(0).size());
  EXPECT_EQ(lease.device_bytes(), 4096u);
  EXPECT_EQ(lease.strategy(), "host");
  EXPECT_EQ(lease.file(), nullptr);
  ASSERT_EQ(lease.host_bytes().size(), lease.bytes());
  EXPECT_EQ(std::memcmp(lease.host_bytes().data(), weights.Expected(0).data(), lease.bytes()), 0);
}

TEST(Embedders, AnEmptyTensorsLeaseHasNeitherBytesNorAnAddress) {
  const TensorType type =
      TensorType::Create(ElementType::kF16, Shape::Create({0, 4}).value()).value();
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const Lease lease = bank->Load("empty", LazyTensor::Splat(type, 0).value()).value();
  EXPECT_EQ(lease.bytes(), 0u);
  EXPECT_EQ(lease.device_bytes(), 0u);
  EXPECT_EQ(lease.address(), nullptr);
  EXPECT_EQ(lease.strategy(), "");
  EXPECT_TRUE(lease.host_bytes().empty());
}

TEST(Embedders, InspectingATensorMakesItNeitherResidentNorUsed) {
  const TestWeights weights(1);
  const auto memory = std::make_shared<HostMemory>();
  const auto bank = Bank::Create(memory, {});
  Owner owner = bank->AddOwner("mine", {.index = weights.Index()});
  const Uid uid = bank->Register(owner, weights.Submodel()[0], "layer0")->uid;
  EXPECT_EQ(bank->Inspect(uid)->state, "registered");
  EXPECT_EQ(memory->Usage().live_allocations, 0u);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  const TensorSnapshot resident = bank->Inspect(uid).value();
  EXPECT_EQ(resident.state, "resident");
  EXPECT_EQ(resident.name, "layer0");
  EXPECT_EQ(resident.device_bytes, 4096u);
  EXPECT_EQ(resident.leases, 0u);
  EXPECT_THAT(resident.owners, ElementsAre("mine"));
  ASSERT_TRUE(bank->Evict(1));
  EXPECT_EQ(bank->Inspect(uid)->state, "evicted");
  EXPECT_EQ(memory->Usage().live_allocations, 0u);
  owner.Release();
  EXPECT_EQ(bank->Inspect(uid).status().code(), absl::StatusCode::kNotFound);
}

TEST(Embedders, WhatTheLibrarySaysGoesToTheirLog) {
  std::vector<std::string> lines;
  SetLogSink([&lines](absl::string_view line) { lines.emplace_back(line); });
  Log("the driver has no virtual memory");
  SetLogSink(nullptr);
  EXPECT_THAT(lines, ElementsAre("the driver has no virtual memory"));
}

}  // namespace
}  // namespace npubank

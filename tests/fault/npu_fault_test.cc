// The driver fails the N-th call of all that a user does, for every N, once and forever, for every
// strategy of device memory: what the user sees is a Status, the step tried again works, the answer
// is the same, and in the end the device keeps nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/session.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using level_zero::Device;
using level_zero::DeviceChoice;

constexpr uint64_t kMostCalls = 3000;  // of one attempt; to end a test that never ends

CheckpointShape OneLayer() {
  CheckpointShape shape = PaddedShape();
  shape.layers = 1;
  return shape;
}

CheckpointShape QuantizedLayer() {
  CheckpointShape shape = OneLayer();
  shape.format = CheckpointFormat::kAwq;
  return shape;
}

std::vector<std::string> CompileBoth(const std::string& folder, WeightFormat weights) {
  const auto checkpoint = Checkpoint::Open(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<std::string> blobs;
  for (const int64_t chunk : {4, 1}) {
    CompileOptions options;
    options.name = chunk == 1 ? "kvcache" : "prefill";
    options.chunk = chunk;
    options.context = 32;
    options.weights = weights;
    auto blob = Compile(**checkpoint, options);
    EXPECT_TRUE(blob.ok()) << blob.status();
    blobs.push_back(*std::move(blob));
  }
  return blobs;
}

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

class NpuFaultTest : public ::testing::TestWithParam<std::tuple<MemoryStrategy, bool>> {
 protected:
  NpuFaultTest() : NpuFaultTest(OneLayer(), WeightFormat::kF16) {}
  // A model, and what is made of its weights where they are not imported as they are stored.
  NpuFaultTest(const CheckpointShape& shape, WeightFormat made) : made_(made), model_(shape) {}

  void SetUp() override {
    const auto [strategy, host_access] = GetParam();
    strategy_ = strategy;
    integrated_ = host_access;
    switches_.emplace(
        std::map<std::string, std::string>{{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                                           {"NPUBANK_NPU_IMPORT", "1"},
                                           {"NPUBANK_NPU_HOST_ACCESS", host_access ? "1" : "0"}});
    const auto device = Device::Open(DeviceChoice::kSoftware);
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_EQ((*device)->integrated(), integrated_);
    software_ = (*device)->software();
    // Constants as they are stored, where they can be imported.
    const bool imported = strategy == MemoryStrategy::kImported;
    blobs_ = CompileBoth(model_.folder(), imported ? WeightFormat::kKeep : made_);
  }

  // The step; and when it failed, once more without faults.
  template <class Step>
  auto Persist(Step step) {
    auto result = step();
    if (StatusOf(result).ok()) return result;
    ++failures_;
    EXPECT_FALSE(StatusOf(result).message().empty());
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    return step();
  }
  absl::StatusOr<std::shared_ptr<NpuMemory>> MakeMemory(const std::shared_ptr<Device>& device) {
    return NpuMemory::Create(device, {.strategy = strategy_, .notice = [](absl::string_view) {}});
  }
  absl::StatusOr<std::shared_ptr<Npu>> OpenNpu() {
    NpuOptions options = {.device = DeviceChoice::kSoftware, .workers = 0};
    options.memory = {.strategy = strategy_, .notice = [](absl::string_view) {}};
    return Npu::Open(std::move(options));
  }

  // Opens the device, loads both submodels and feeds a prompt that needs both; puts the
  // session to sleep and feeds the same again: the last logits.
  absl::StatusOr<std::vector<float>> LoadAndRun() {
    NPUBANK_ASSIGN_OR_RETURN(auto npu, Persist([&] { return OpenNpu(); }));
    // Sampling a tensor that the host cannot touch makes a hundred calls that are all alike; those
    // of small tensors are in SleepAndWake.
    NPUBANK_ASSIGN_OR_RETURN(auto bank, npu->MakeBank({.share_content = false}));
    NPUBANK_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Open(model_.folder()));
    NPUBANK_ASSIGN_OR_RETURN(auto session, Persist([&] {
                               return Session::Load(npu, bank, blobs_, checkpoint->index(), {});
                             }));
    checkpoint.reset();
    EXPECT_EQ(LiveSourceBytes(), 0u);
    NPUBANK_RETURN_IF_ERROR(Persist([&] { return session->Feed({1, 2, 3, 4, 5, 6, 7}); }).status());
    NPUBANK_ASSIGN_OR_RETURN(absl::Span<const float> logits,
                             Persist([&] { return session->Feed({8}); }));
    const std::vector<float> first(logits.begin(), logits.end());
    if (integrated_) {  // else it costs as many uploads again, which SleepAndWake has too
      NPUBANK_RETURN_IF_ERROR(Persist([&] { return session->Sleep(); }).status());
      EXPECT_EQ(DriverStatistics(*software_).live_bytes, 0u) << "asleep";
      NPUBANK_ASSIGN_OR_RETURN(logits, Persist([&] {
                                 return session->Feed({1, 2, 3, 4, 5, 6, 7, 8});
                               }));
      EXPECT_EQ(first, std::vector<float>(logits.begin(), logits.end())) << "woken";
    }
    CountCalls();
    return first;
  }

  // Loads an owner's tensors, puts it to sleep and wakes it again, without and with a copy on the
  // host: all of its bytes.
  absl::StatusOr<std::vector<float>> SleepAndWake() {
    NPUBANK_ASSIGN_OR_RETURN(auto device,
                             Persist([] { return Device::Open(DeviceChoice::kSoftware); }));
    NPUBANK_ASSIGN_OR_RETURN(auto memory, Persist([&] { return MakeMemory(device); }));
    auto bank = Bank::Create(memory, {});
    const Owner owner = bank->AddOwner("prefill", {.index = weights_.Index()});
    std::vector<Uid> uids;
    for (const LazyTensor& tensor : weights_.Submodel()) {
      NPUBANK_ASSIGN_OR_RETURN(const Registration registration,
                               bank->Register(owner, tensor, TestWeights::Name(uids.size())));
      uids.push_back(registration.uid);
    }
    NPUBANK_RETURN_IF_ERROR(Persist([&] { return bank->EvaluateAndAllocate(owner); }));
    for (const bool keep : {false, true}) {
      NPUBANK_RETURN_IF_ERROR(
          Persist([&] { return bank->Sleep(owner, {.keep_host_copy = keep}); }).status());
      EXPECT_EQ(DriverStatistics(*software_).live_bytes, 0u) << "asleep";
      NPUBANK_RETURN_IF_ERROR(Persist([&] { return bank->EvaluateAndAllocate(owner); }));
    }
    for (size_t i = 0; i < uids.size(); ++i) {
      std::vector<std::byte> bytes(weights_.Expected(i).size());
      NPUBANK_RETURN_IF_ERROR(
          Persist([&] { return bank->Read(uids[i], 0, absl::MakeSpan(bytes)); }));
      EXPECT_EQ(bytes, weights_.Expected(i)) << TestWeights::Name(i);
    }
    CountCalls();
    return std::vector<float>();
  }

  void CountCalls() {
    if (failures_ == 0) software_->pfnCountCalls("", &calls_);
  }

  template <class Attempt>
  void FailEveryCall(Attempt attempt, bool forever) {
    const auto healthy = attempt();
    ASSERT_TRUE(healthy.ok()) << healthy.status();
    uint64_t noticed = 0;
    uint64_t n = 1;
    for (calls_ = n; calls_ >= n; ++n) {
      ASSERT_LT(n, kMostCalls);
      failures_ = 0;
      calls_ = n + 1;  // unless it succeeds, and is counted
      software_->pfnFailCall("", n, forever, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
      const auto result = attempt();
      software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
      const std::string when = absl::StrCat("after failing call ", n);
      ASSERT_TRUE(result.ok()) << result.status() << " when tried again " << when;
      EXPECT_EQ(*result, *healthy) << when;
      noticed += failures_;
      ExpectNothingLeft(*software_, when);
      EXPECT_EQ(DriverStatistics(*software_).live_contexts, 0u) << when;
      EXPECT_EQ(LiveSourceBytes(), 0u) << when;
    }
    EXPECT_GT(noticed, 0u);
  }

  const WeightFormat made_;
  MemoryStrategy strategy_ = MemoryStrategy::kAuto;
  bool integrated_ = true;
  std::optional<NpuSwitches> switches_;
  const level_zero::SoftwareNpuExtension* software_ = nullptr;
  TestModel model_;
  TestWeights weights_{1};
  std::vector<std::string> blobs_;
  uint64_t failures_ = 0;  // of this attempt
  uint64_t calls_ = 0;     // of this attempt
};

TEST_P(NpuFaultTest, AnyCallOfALoadAndRunFailingOnce) {
  FailEveryCall([&] { return LoadAndRun(); }, false);
}

TEST_P(NpuFaultTest, AnyCallOfALoadAndRunFailingForEver) {
  FailEveryCall([&] { return LoadAndRun(); }, true);
}

TEST_P(NpuFaultTest, AnyCallOfSleepAndWakeFailingOnce) {
  FailEveryCall([&] { return SleepAndWake(); }, false);
}

TEST_P(NpuFaultTest, AnyCallOfSleepAndWakeFailingForEver) {
  FailEveryCall([&] { return SleepAndWake(); }, true);
}

INSTANTIATE_TEST_SUITE_P(
    Every, NpuFaultTest,
    ::testing::Combine(::testing::Values(MemoryStrategy::kCommitted, MemoryStrategy::kPlaced,
                                         MemoryStrategy::kTiled, MemoryStrategy::kImported),
                       ::testing::Bool()),
    [](const auto& test) {
      return absl::StrCat(MemoryStrategyName(std::get<0>(test.param)),
                          std::get<1>(test.param) ? "_host_writable" : "_staged");
    });

// Weights in parts: words, scales and zero points, each a tensor of its own, as they are stored and as planes.
class QuantizedFaultTest : public NpuFaultTest {
 protected:
  QuantizedFaultTest() : NpuFaultTest(QuantizedLayer(), WeightFormat::kPacked) {}
};

TEST_P(QuantizedFaultTest, AnyCallOfALoadAndRunFailingOnce) {
  FailEveryCall([&] { return LoadAndRun(); }, false);
}

TEST_P(QuantizedFaultTest, AnyCallOfALoadAndRunFailingForEver) {
  FailEveryCall([&] { return LoadAndRun(); }, true);
}

INSTANTIATE_TEST_SUITE_P(Two, QuantizedFaultTest,
                         ::testing::Combine(::testing::Values(MemoryStrategy::kPlaced,
                                                              MemoryStrategy::kImported),
                                            ::testing::Values(true)),
                         [](const auto& test) {
                           return std::string(MemoryStrategyName(std::get<0>(test.param)));
                         });

// A job that the device gave up on.
class LostJobTest : public NpuFaultTest {};

TEST_P(LostJobTest, WhatWasNotFedDoesNotCountAndIsFedAgain) {
  const auto npu = OpenNpu();
  ASSERT_TRUE(npu.ok()) << npu.status();
  const auto checkpoint = Checkpoint::Open(model_.folder());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  auto session =
      Session::Load(*npu, (*npu)->MakeBank({}).value(), blobs_, (*checkpoint)->index(), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7};
  software_->pfnFailCall("zeCommandQueueExecuteCommandLists", 2, 0, ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ((*session)->Feed(prompt).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*session)->position(), 0) << "what was not fed must not count";
  const auto logits = (*session)->Feed(prompt);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const std::vector<float> retried(logits->begin(), logits->end());
  (*session)->Rewind();
  const auto fresh = (*session)->Feed(prompt);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(retried, std::vector<float>(fresh->begin(), fresh->end()));
}

INSTANTIATE_TEST_SUITE_P(Committed, LostJobTest,
                         ::testing::Combine(::testing::Values(MemoryStrategy::kCommitted),
                                            ::testing::Values(true)));

}  // namespace
}  // namespace npubank

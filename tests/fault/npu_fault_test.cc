// The driver fails the N-th call of a load and run, for every N, once and for ever: what the user
// sees is a Status, what the device keeps is nothing, and the next try works.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lazy_tensor/status_macros.h"
#include "tests/support/npu_fixture.h"
#include "tests/support/test_model.h"
#include "tools/model_run.h"

namespace npubank {
namespace {

class NpuFaultTest : public NpuTest {
 protected:
  ModelRunOptions Options() const {
    ModelRunOptions options;
    options.model = model_.folder();
    options.chunk = 4;
    return options;
  }

  // Loads both submodels, feeds a prompt that needs both and returns the last logits.
  absl::StatusOr<std::vector<float>> LoadAndRun() {
    NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<ModelRun> run, ModelRun::Load(Options(), place_));
    NPUBANK_ASSIGN_OR_RETURN(absl::Span<const float> logits,
                             run->session().Feed({1, 2, 3, 4, 5, 6, 7}));
    NPUBANK_ASSIGN_OR_RETURN(logits, run->session().Feed({8}));
    return std::vector<float>(logits.begin(), logits.end());
  }

  uint64_t CountCalls() {
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    EXPECT_TRUE(LoadAndRun().ok());
    uint64_t calls = 0;
    software_->pfnCountCalls("", &calls);
    return calls;
  }

  void ExpectNothingLeft(uint64_t n) {
    const level_zero::SoftwareNpuStatistics left = Driver();
    EXPECT_EQ(left.live_bytes, 0u) << "after failing call " << n;
    EXPECT_EQ(left.live_allocations, 0u) << "after failing call " << n;
    EXPECT_EQ(left.live_graphs, 0u) << "after failing call " << n;
    EXPECT_EQ(left.live_lists, 0u) << "after failing call " << n;
    EXPECT_EQ(left.live_fences, 0u) << "after failing call " << n;
    EXPECT_EQ(left.live_queues, 0u) << "after failing call " << n;
    EXPECT_EQ(LiveSourceBytes(), 0u) << "after failing call " << n;
  }

  void FailEveryCall(bool for_ever) {
    const auto healthy = LoadAndRun();
    ASSERT_TRUE(healthy.ok()) << healthy.status();
    const uint64_t calls = CountCalls();
    ASSERT_GT(calls, 20u);
    uint64_t failures = 0;
    for (uint64_t n = 1; n <= calls; ++n) {
      software_->pfnFailCall("", n, for_ever, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
      const auto result = LoadAndRun();
      software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
      if (result.ok()) {
        EXPECT_EQ(*result, *healthy) << "call " << n << " failed unnoticed and the answer changed";
      } else {
        ++failures;
        EXPECT_FALSE(result.status().message().empty());
      }
      ExpectNothingLeft(n);
    }
    EXPECT_GT(failures, calls / 2);
    const auto again = LoadAndRun();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *healthy);
  }

  TestModel model_;
};

TEST_F(NpuFaultTest, AnyCallFailingOnceGivesAStatusAndLeavesNothing) { FailEveryCall(false); }

TEST_F(NpuFaultTest, AnyCallFailingForEverGivesAStatusAndLeavesNothing) { FailEveryCall(true); }

TEST_F(NpuFaultTest, ASessionWhoseRunFailedRunsAgain) {
  auto run = ModelRun::Load(Options(), place_);
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7};
  software_->pfnFailCall("zeCommandQueueExecuteCommandLists", 2, 0, ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ((*run)->session().Feed(prompt).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*run)->session().position(), 0) << "what was not fed must not count";
  const auto logits = (*run)->session().Feed(prompt);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const std::vector<float> retried(logits->begin(), logits->end());
  (*run)->session().Rewind();
  const auto fresh = (*run)->session().Feed(prompt);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(retried, std::vector<float>(fresh->begin(), fresh->end()));
}

}  // namespace
}  // namespace npubank

// NpuTest: a GoogleTest fixture on the software NPU, opened through the real loader.
//
//   class MyTest : public NpuTest {};
//   TEST_F(MyTest, ...) { auto run = ModelRun::Load(options, place_); ... Driver().live_bytes ... }
//
// TearDown drops the bank and demands that the driver itself counts nothing left: no bytes, no
// allocations, no graphs, lists, fences or queues. Set expect_clean_ to false only to test the
// fixture.
#ifndef NPUBANK_TESTS_SUPPORT_NPU_FIXTURE_H_
#define NPUBANK_TESTS_SUPPORT_NPU_FIXTURE_H_

#include <gtest/gtest.h>

#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {

class NpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto place = BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/2,
                                 {.strategy = strategy_});
    ASSERT_TRUE(place.ok()) << place.status();
    place_ = *std::move(place);
    software_ = place_.device->software();
    ASSERT_NE(software_, nullptr) << "not the software NPU";
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    software_->pfnResetPeak();
  }

  void TearDown() override {
    if (!software_) return;
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    place_ = BankPlace();
    ExpectNothingLeft(*software_, "at the end");
    EXPECT_EQ(Driver().live_contexts, 0u);
  }

  // The driver's own count: the independent witness.
  level_zero::SoftwareNpuStatistics Driver() const { return DriverStatistics(*software_); }

  // Committed: what the driver holds is what tensors cost, page by page.
  MemoryStrategy strategy_ = MemoryStrategy::kCommitted;
  BankPlace place_;
  const level_zero::SoftwareNpuExtension* software_ = nullptr;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_NPU_FIXTURE_H_

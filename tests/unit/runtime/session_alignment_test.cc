// What a device may want of its arguments' addresses, which no driver can be asked: every strategy gives it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

using Logits = std::vector<float>;

constexpr uint64_t kLeast = 64;  // what is allocated lies at multiples of this, whatever a device asks for

class SessionAlignmentTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static absl::StatusOr<BankPlace> Open(MemoryStrategy strategy, uint64_t alignment) {
    return BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/2,
                           {.strategy = strategy, .argument_alignment = alignment});
  }
  absl::StatusOr<std::unique_ptr<ModelRun>> Load(const BankPlace& place) const {
    ModelRunOptions options;
    options.model = model_.folder();
    options.chunk = 4;
    options.context = 30;  // states of no whole pages
    options.attention = AttentionForm::kPerHead;
    return ModelRun::Load(options, place);
  }
  static Logits Feed(Session& session) {
    session.Rewind();
    const auto logits = session.Feed({1, 5, 9, 2, 7});
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? Logits(logits->begin(), logits->end()) : Logits();
  }

  const NpuSwitches switches_{{{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", absl::StrCat(GetParam())},
                               {"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                               {"NPUBANK_NPU_TILE_SIZE", "4K"},
                               {"NPUBANK_NPU_IMPORT", "1"}}};
  const TestModel model_;
};

TEST_P(SessionAlignmentTest, EveryStrategyLoadsRunsSleepsAndWakes) {
  Logits expected;
  for (const char* name : {"committed", "placed", "tiled", "imported"}) {
    SCOPED_TRACE(name);
    const auto place = Open(MemoryStrategyFromName(name).value(), GetParam());
    ASSERT_TRUE(place.ok()) << place.status();
    auto run = Load(*place);
    ASSERT_TRUE(run.ok()) << run.status();
    Session& session = (*run)->session();
    const Logits logits = Feed(session);
    if (expected.empty()) expected = logits;
    EXPECT_EQ(logits, expected);
    ASSERT_TRUE(session.Sleep().ok());
    EXPECT_EQ(Feed(session), expected);
  }
}

TEST_P(SessionAlignmentTest, ADeviceThatWantsMoreThanItsMemoryWasToldIsAnErrorThatNamesTheArgument) {
  if (GetParam() <= kLeast) return;
  const auto place = Open(MemoryStrategy::kPlaced, kLeast);
  ASSERT_TRUE(place.ok()) << place.status();
  auto run = Load(*place);
  ASSERT_TRUE(run.ok()) << run.status();
  const absl::Status status = (*run)->session().Feed({1, 5}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(absl::StrContains(status.message(), "argument")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "at a multiple of ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--argument-alignment")) << status;
}

INSTANTIATE_TEST_SUITE_P(Multiples, SessionAlignmentTest, ::testing::Values(1, 16, 64, 4096));

TEST(MemoryAlignment, WhatNoDriverGivesIsRefused) {
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{96}, uint64_t{8192}}) {
    const auto place = BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/0,
                                       {.argument_alignment = alignment});
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument) << alignment;
  }
}

}  // namespace
}  // namespace npubank

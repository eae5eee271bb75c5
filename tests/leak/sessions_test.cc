// Real compiled submodels on the software NPU: load, run and drop in different orders. A guard looks
// for what a test left in the bank; the driver's own counts are checked to zero by the fixture.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "npubank/bank/books/audit.h"
#include "npubank/bank/testing.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

// How the model is stored, and how its weights are used.
struct Layout {
  const char* name;
  CheckpointFormat format;
  WeightFormat weights;
  uint64_t parts;  // of a quantized matrix
};

CheckpointShape ShapeOf(const Layout& layout) {
  CheckpointShape shape = TinyShape();
  shape.hidden = 64;
  shape.intermediate = 128;
  shape.format = layout.format;
  return shape;
}

class SessionsLeakTest : public NpuTest, public ::testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    if (place_.bank != nullptr) guard_.emplace(std::vector{place_.bank});
  }
  void TearDown() override {
    guard_.reset();
    NpuTest::TearDown();
  }

  std::unique_ptr<Session> Load(const std::vector<int64_t>& chunks) {
    auto checkpoint = Checkpoint::Open(model_.model());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    std::vector<std::string> blobs;
    for (int64_t chunk : chunks) {
      CompileOptions options;
      options.name = "chunk" + std::to_string(chunk);
      options.chunk = chunk;
      options.context = 32;
      options.weights = GetParam().weights;
      auto blob = Compile(**checkpoint, options);
      EXPECT_TRUE(blob.ok()) << blob.status();
      blobs.push_back(*std::move(blob));
    }
    auto session = Session::Load(place_.npu, place_.bank, blobs, (*checkpoint)->index(), {});
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  static std::vector<float> Run(Session& session) {
    session.Rewind();
    const auto logits = session.Feed({1, 2, 3, 4, 5, 6});
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  }

  // The weights are there once, whoever shares them, and no source byte is held.
  void ExpectOneCopy(uint64_t activations) {
    const BankTotals totals = place_.bank->Totals();
    EXPECT_EQ(totals.resident_bytes, totals.unique_bytes);
    // Three layers of seven matrices and two norms, and three tensors around them, two of them tables that
    // only blocks have in parts.
    const bool blocks = GetParam().format == CheckpointFormat::kGgufQ4_0;
    EXPECT_EQ(totals.unique_tensors,
              3 * (7 * GetParam().parts + 2) + 1 + 2 * (blocks ? GetParam().parts : 1));
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    const AuditReport audit = place_.bank->Audit(activations);
    EXPECT_TRUE(audit.clean()) << audit.ToString();
  }

  TestModel model_{ShapeOf(GetParam())};
  std::optional<LeakGuard> guard_;
};

TEST_P(SessionsLeakTest, PrefillThenKvcache) {
  auto session = Load({4, 1});
  ASSERT_NE(session, nullptr);
  Run(*session);
  ExpectOneCopy(session->device_bytes());
}

TEST_P(SessionsLeakTest, KvcacheThenPrefill) {
  auto session = Load({1, 4});
  ASSERT_NE(session, nullptr);
  Run(*session);
  ExpectOneCopy(session->device_bytes());
}

TEST_P(SessionsLeakTest, AThirdSubmodelBringsNoByte) {
  auto session = Load({4, 1});
  ASSERT_NE(session, nullptr);
  const uint64_t before = place_.memory->Usage().live_bytes;
  auto third = Load({8});
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(place_.memory->Usage().live_bytes, before);
  EXPECT_EQ(Run(*session), Run(*third)) << "the same model, whatever the chunk";
  ExpectOneCopy(session->device_bytes() + third->device_bytes());
}

TEST_P(SessionsLeakTest, OneSessionIsDroppedWhileTheOtherRuns) {
  auto first = Load({4, 1});
  auto second = Load({8, 1});
  ASSERT_TRUE(first && second);
  const std::vector<float> logits = Run(*second);
  Run(*first);
  first.reset();
  ExpectOneCopy(second->device_bytes());
  EXPECT_EQ(Run(*second), logits);
}

TEST_P(SessionsLeakTest, ASessionLoadedAfterAllOthersAreGoneStartsFromTheFilesAgain) {
  auto first = Load({4, 1});
  ASSERT_NE(first, nullptr);
  const std::vector<float> logits = Run(*first);
  first.reset();
  EXPECT_EQ(Driver().live_bytes, 0u) << "unloaded means given back, while the bank lives on";
  auto second = Load({4, 1});
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(Run(*second), logits);
}

TEST_P(SessionsLeakTest, ASleepGivesEveryPartBackAndTheNextFeedBringsItBack) {
  auto session = Load({4, 1});
  ASSERT_NE(session, nullptr);
  const std::vector<float> logits = Run(*session);
  const auto slept = session->Sleep();
  ASSERT_TRUE(slept.ok()) << slept.status();
  EXPECT_EQ(place_.bank->Totals().resident_bytes, 0u);
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_EQ(Run(*session), logits);
  ExpectOneCopy(session->device_bytes());
}

TEST_P(SessionsLeakTest, EveryPartIsEvictedForABudgetAndComesBack) {
  auto session = Load({4, 1});
  ASSERT_NE(session, nullptr);
  const std::vector<float> logits = Run(*session);
  session->Pause();
  ASSERT_EQ(place_.bank->SetBudget(0), absl::OkStatus());
  const BankTotals totals = place_.bank->Totals();
  EXPECT_EQ(totals.resident_bytes, 0u);
  EXPECT_EQ(totals.evictions, totals.unique_tensors);
  EXPECT_EQ(place_.memory->Usage().live_bytes, session->device_bytes()) << "the conversation stays";
  ASSERT_EQ(place_.bank->SetBudget(BankOptions().budget_bytes), absl::OkStatus());
  EXPECT_EQ(Run(*session), logits);
  ExpectOneCopy(session->device_bytes());
}

TEST_P(SessionsLeakTest, AHundredLoadAndUnloadCyclesLeaveNothing) {
  for (int cycle = 0; cycle < 100; ++cycle) {
    auto session = Load({4, 1});
    ASSERT_NE(session, nullptr);
    if (cycle % 10 == 0) Run(*session);
  }
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_EQ(Driver().live_graphs, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SessionsLeakTest,
    ::testing::Values(Layout{"f16", CheckpointFormat::kSafetensors, WeightFormat::kF16, 1},
                      Layout{"gguf_kept", CheckpointFormat::kGgufQ4_0, WeightFormat::kKeep, 1},
                      Layout{"gguf_packed", CheckpointFormat::kGgufQ4_0, WeightFormat::kPacked, 2},
                      Layout{"gptq_kept", CheckpointFormat::kGptq, WeightFormat::kKeep, 3},
                      Layout{"gptq_act_order_kept", CheckpointFormat::kGptqActOrder, WeightFormat::kKeep, 4},
                      Layout{"awq_packed", CheckpointFormat::kAwq, WeightFormat::kPacked, 3},
                      Layout{"int8_kept", CheckpointFormat::kInt8, WeightFormat::kKeep, 2},
                      Layout{"int4_packed", CheckpointFormat::kPackInt4, WeightFormat::kPacked, 2}),
    [](const auto& layout) { return std::string(layout.param.name); });

}  // namespace
}  // namespace npubank

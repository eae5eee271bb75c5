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

class SessionsLeakTest : public NpuTest {
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
    auto checkpoint = Checkpoint::Open(model_.folder());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    std::vector<std::string> blobs;
    for (int64_t chunk : chunks) {
      CompileOptions options;
      options.name = "chunk" + std::to_string(chunk);
      options.chunk = chunk;
      options.context = 32;
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
    EXPECT_EQ(totals.unique_tensors, 3 * 9 + 3u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    const AuditReport audit = place_.bank->Audit(activations);
    EXPECT_TRUE(audit.clean()) << audit.ToString();
  }

  TestModel model_;
  std::optional<LeakGuard> guard_;
};

TEST_F(SessionsLeakTest, PrefillThenKvcache) {
  auto session = Load({4, 1});
  ASSERT_NE(session, nullptr);
  Run(*session);
  ExpectOneCopy(session->device_bytes());
}

TEST_F(SessionsLeakTest, KvcacheThenPrefill) {
  auto session = Load({1, 4});
  ASSERT_NE(session, nullptr);
  Run(*session);
  ExpectOneCopy(session->device_bytes());
}

TEST_F(SessionsLeakTest, AThirdSubmodelBringsNoByte) {
  auto session = Load({4, 1});
  ASSERT_NE(session, nullptr);
  const uint64_t before = place_.memory->Usage().live_bytes;
  auto third = Load({8});
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(place_.memory->Usage().live_bytes, before);
  EXPECT_EQ(Run(*session), Run(*third)) << "the same model, whatever the chunk";
  ExpectOneCopy(session->device_bytes() + third->device_bytes());
}

TEST_F(SessionsLeakTest, OneSessionIsDroppedWhileTheOtherRuns) {
  auto first = Load({4, 1});
  auto second = Load({8, 1});
  ASSERT_TRUE(first && second);
  const std::vector<float> logits = Run(*second);
  Run(*first);
  first.reset();
  ExpectOneCopy(second->device_bytes());
  EXPECT_EQ(Run(*second), logits);
}

TEST_F(SessionsLeakTest, ASessionLoadedAfterAllOthersAreGoneStartsFromTheFilesAgain) {
  auto first = Load({4, 1});
  ASSERT_NE(first, nullptr);
  const std::vector<float> logits = Run(*first);
  first.reset();
  EXPECT_EQ(Driver().live_bytes, 0u) << "unloaded means given back, while the bank lives on";
  auto second = Load({4, 1});
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(Run(*second), logits);
}

TEST_F(SessionsLeakTest, AHundredLoadAndUnloadCyclesLeaveNothing) {
  for (int cycle = 0; cycle < 100; ++cycle) {
    auto session = Load({4, 1});
    ASSERT_NE(session, nullptr);
    if (cycle % 10 == 0) Run(*session);
  }
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_EQ(Driver().live_graphs, 0u);
}

}  // namespace
}  // namespace npubank

// A session between its turns: paused, asleep, awake again, beside another model on one bank.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/session.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using Logits = std::vector<float>;

class SessionLifeTest : public NpuTest {
 protected:
  std::unique_ptr<Session> Load(const TestModel& model) {
    auto checkpoint = Checkpoint::Open(model.folder());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    index_ = (*checkpoint)->index();
    std::vector<std::string> blobs;
    for (const int64_t chunk : {4, 1}) {
      CompileOptions compile;
      compile.name = chunk == 1 ? "kvcache" : "prefill";
      compile.chunk = chunk;
      compile.context = 32;
      auto blob = Compile(**checkpoint, compile);
      EXPECT_TRUE(blob.ok()) << blob.status();
      blobs.push_back(*std::move(blob));
    }
    auto session = Session::Load(place_.npu, place_.bank, blobs, index_, {});
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  static Logits Feed(Session& session, const std::vector<int32_t>& tokens) {
    const auto logits = session.Feed(tokens);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? Logits(logits->begin(), logits->end()) : Logits();
  }

  TestModel model_;
  std::shared_ptr<const SourceIndex> index_;  // of the model that was loaded last
};

TEST_F(SessionLifeTest, APauseGivesTheArenaBackAndTheConversationGoesOn) {
  auto session = Load(model_);
  const Logits expected = (Feed(*session, {1, 5, 9, 2, 7}), Feed(*session, {3}));
  session->Rewind();
  Feed(*session, {1, 5, 9, 2, 7});
  const uint64_t running = Driver().live_bytes;
  session->Pause();
  EXPECT_LE(Driver().live_bytes, running - session->arena_bytes());
  EXPECT_EQ(Driver().live_graphs, 0u);
  EXPECT_EQ(Driver().live_lists, 0u);
  EXPECT_EQ(place_.bank->Totals().resident_bytes, place_.bank->Totals().unique_bytes);
  EXPECT_EQ(Feed(*session, {3}), expected);
  EXPECT_EQ(Driver().live_bytes, running);
  EXPECT_EQ(index_->opens(), 1u) << "nothing had left: no file is needed";
}

// Two submodels, one set of weights: what the second registers are hits, of which nothing is made.
TEST_F(SessionLifeTest, ALoadMakesARecipePerUniqueTensorAndOpensEachFileOnce) {
  const uint64_t made = RecipeList::RecipesMade();
  auto session = Load(model_);
  const BankTotals totals = place_.bank->Totals();
  EXPECT_EQ(totals.hits, totals.unique_tensors) << "kvcache has what prefill has";
  EXPECT_EQ(RecipeList::RecipesMade() - made, totals.unique_tensors);
  EXPECT_EQ(index_->opens(), index_->file_count());
}

// Equal names, equal shapes, other files: each gets its own bytes.
TEST_F(SessionLifeTest, TwoModelsWithEqualTensorNamesInOneBankShareNothing) {
  CheckpointShape shape = TinyShape();
  shape.seed += 1;
  const TestModel other(shape);
  auto first = Load(model_);
  const BankTotals alone = place_.bank->Totals();
  const Logits expected = Feed(*first, {1, 5, 9});
  auto second = Load(other);
  EXPECT_NE(Feed(*second, {1, 5, 9}), expected);
  const BankTotals both = place_.bank->Totals();
  EXPECT_EQ(both.unique_tensors, 2 * alone.unique_tensors);
  first->Rewind();
  EXPECT_EQ(Feed(*first, {1, 5, 9}), expected);
}

TEST_F(SessionLifeTest, ASleepGivesEverythingBackAndTheNextFeedBringsItBack) {
  auto session = Load(model_);
  const Logits expected = Feed(*session, {1, 5, 9});
  const auto report = session->Sleep();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->bytes_given_back, 0u);
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_EQ(session->position(), 0) << "what was fed is forgotten";
  EXPECT_EQ(session->device_bytes(), 0u);
  EXPECT_EQ(Feed(*session, {1, 5, 9}), expected);
  EXPECT_EQ(index_->opens(), 2u) << "one opening brings all weights back";
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST_F(SessionLifeTest, WithAHostCopyNoFileIsNeeded) {
  auto model = std::make_unique<TestModel>();
  auto session = Load(*model);
  const Logits expected = Feed(*session, {1, 5, 9});
  model.reset();
  EXPECT_GT(session->Sleep({.keep_host_copy = true})->bytes_given_back, 0u);
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_EQ(Feed(*session, {1, 5, 9}), expected);
  EXPECT_EQ(index_->opens(), 1u);
}

TEST_F(SessionLifeTest, AWakeWhoseFilesAreGoneSaysSoAndTheSessionSleepsOn) {
  auto model = std::make_unique<TestModel>();
  const std::string folder = model->folder();
  auto session = Load(*model);
  ASSERT_TRUE(session->Sleep().ok());
  model.reset();
  const absl::Status status = session->Wake();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), folder)) << status;
  EXPECT_EQ(Driver().live_bytes, 0u);
  EXPECT_FALSE(session->Feed({1}).ok());
}

TEST_F(SessionLifeTest, AWakeThatTheDriverFailsIsTriedAgain) {
  auto session = Load(model_);
  const Logits expected = Feed(*session, {1, 5, 9});
  ASSERT_TRUE(session->Sleep().ok());
  software_->pfnFailCall("zeMemAllocDevice", 7, 0, ZE_RESULT_ERROR_UNKNOWN);
  EXPECT_FALSE(session->Wake().ok());
  EXPECT_EQ(Driver().live_bytes, 0u) << "it sleeps as before";
  EXPECT_EQ(Feed(*session, {1, 5, 9}), expected);
}

class TwoModelsTest : public SessionLifeTest {
 protected:
  // Room for one model, its activations, and not for another one's weights.
  void Limit(uint64_t budget_bytes) {
    BankOptions options;
    options.budget_bytes = budget_bytes;
    options.share_content = false;
    place_.bank = Bank::Create(place_.memory, std::move(options));
  }
  static CheckpointShape OtherShape() {
    CheckpointShape shape = TinyShape();
    shape.seed = 99;
    return shape;
  }
  TestModel other_{OtherShape()};
};

TEST_F(TwoModelsTest, OnABudgetForOneEachTurnBringsItsModelInAndSendsTheOtherOut) {
  Logits expected[2];
  uint64_t one = 0;
  for (const TestModel* model : {&model_, &other_}) {
    auto alone = Load(*model);
    one = place_.bank->Totals().device_bytes;
    expected[model == &other_] = Feed(*alone, {1, 5, 9});
  }
  ASSERT_NE(expected[0], expected[1]);
  Limit(one + one / 2);
  auto first = Load(model_);
  EXPECT_EQ(Feed(*first, {1, 5, 9}), expected[0]);
  first->Pause();
  auto second = Load(other_);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Feed(*second, {1, 5, 9}), expected[1]);
    second->Pause();
    second->Rewind();
    first->Rewind();
    EXPECT_EQ(Feed(*first, {1, 5, 9}), expected[0]);
    first->Pause();
    second->Rewind();
    EXPECT_LE(place_.bank->Totals().budget_used, one + one / 2);
  }
  EXPECT_GT(place_.bank->Totals().evictions, 0u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST_F(TwoModelsTest, WhileTheFirstStillRunsTheSecondIsRefusedByName) {
  auto probe = Load(model_);
  const uint64_t one = place_.bank->Totals().device_bytes;
  probe.reset();
  Limit(one + one / 2);
  auto first = Load(model_);
  const Logits expected = Feed(*first, {1, 5, 9});
  auto second = [&] {
    auto checkpoint = Checkpoint::Open(other_.folder()).value();
    CompileOptions compile;
    compile.name = "kvcache";
    compile.context = 32;
    const std::string blob = Compile(*checkpoint, compile).value();
    return Session::Load(place_.npu, place_.bank, {blob}, checkpoint->index(), {});
  }();
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
  EXPECT_TRUE(absl::StrContains(second.status().message(), "leased")) << second.status();
  first->Rewind();
  EXPECT_EQ(Feed(*first, {1, 5, 9}), expected);
}

TEST_F(TwoModelsTest, WhenTheDeviceIsFullIdleWeightsMakeRoomForActivations) {
  auto first = Load(model_);
  auto second = Load(other_);
  const Logits expected = Feed(*first, {1, 5, 9});
  first->Pause();
  // The next large allocation finds no room, once.
  second->Pause();
  ASSERT_TRUE(second->Wake().ok());
  software_->pfnFailCall("zeMemAllocDevice", 1, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  Feed(*second, {1, 5, 9});
  EXPECT_GT(place_.bank->Totals().evictions, 0u);
  second->Pause();
  first->Rewind();
  EXPECT_EQ(Feed(*first, {1, 5, 9}), expected);
}

}  // namespace
}  // namespace npubank

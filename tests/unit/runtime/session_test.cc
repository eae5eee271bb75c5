#include "npubank/runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/compiled_submodel.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

class SessionTest : public NpuTest {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    ModelRunOptions options;
    options.model = model_.folder();
    options.chunk = 8;
    options.context = 32;
    auto run = ModelRun::Load(options, place_);
    ASSERT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
  }
  void TearDown() override {
    run_.reset();
    NpuTest::TearDown();
  }
  Session& session() { return run_->session(); }

  TestModel model_;
  std::unique_ptr<ModelRun> run_;
};

TEST_F(SessionTest, WeightsAreResidentBeforeAnyActivationIsAllocated) {
  const BankTotals totals = place_.bank->Totals();
  EXPECT_EQ(totals.resident_bytes, totals.unique_bytes);
  EXPECT_EQ(Driver().live_bytes, totals.device_bytes) << "arenas come after the last weight";
  ASSERT_TRUE(session().Prepare().ok());
  EXPECT_GT(Driver().live_bytes, totals.device_bytes);
}

TEST_F(SessionTest, TheAuditAgreesWithTheDriverOnceArenaAndCacheAreNamed) {
  ASSERT_TRUE(session().Feed({1, 2, 3}).ok());
  const BankTotals totals = place_.bank->Totals();
  EXPECT_EQ(place_.memory->Usage().live_bytes, totals.device_bytes + session().device_bytes());
}

TEST_F(SessionTest, ThePeakIsWeightsPlusActivationsAndNeverTwiceTheWeights) {
  ASSERT_TRUE(session().Feed({1, 2, 3}).ok());
  EXPECT_EQ(place_.memory->Usage().peak_bytes,
            place_.bank->Totals().device_bytes + session().device_bytes());
}

TEST_F(SessionTest, SubmodelsThatNeverRunAtOnceShareOneArena) {
  uint64_t largest = 0;
  uint64_t sum = 0;
  for (const Submodel& submodel : session().submodels()) {
    largest = std::max(largest, submodel.description().arena_bytes);
    sum += submodel.description().arena_bytes;
  }
  EXPECT_EQ(session().arena_bytes(), largest);
  EXPECT_LT(largest, sum);
}

TEST_F(SessionTest, PrefillAndKvcacheContinueEachOthersCache) {
  const std::vector<int32_t> prompt = {1, 5, 9, 2, 7, 7, 3, 4, 8, 1, 6};
  const auto at_once = session().Feed(prompt);
  ASSERT_TRUE(at_once.ok()) << at_once.status();
  const std::vector<float> expected(at_once->begin(), at_once->end());
  session().Rewind();
  for (int32_t token : prompt) ASSERT_TRUE(session().Feed({token}).ok());
  session().Rewind();
  ASSERT_TRUE(session().Feed(absl::MakeSpan(prompt).subspan(0, 10)).ok());
  const auto mixed = session().Feed({prompt.back()});
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(std::vector<float>(mixed->begin(), mixed->end()), expected);
}

TEST_F(SessionTest, MoreTokensThanTheContextHoldsAreRefusedAndNothingIsFed) {
  EXPECT_EQ(session().Feed(std::vector<int32_t>(33, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session().position(), 0);
  ASSERT_TRUE(session().Feed(std::vector<int32_t>(32, 1)).ok());
  EXPECT_FALSE(session().Feed({1}).ok());
}

TEST_F(SessionTest, TokensOutsideTheVocabularyAreRefusedByName) {
  const absl::Status status = session().Feed({1, 128}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("128"), absl::string_view::npos) << status;
  EXPECT_FALSE(session().Feed({-1}).ok());
  EXPECT_FALSE(session().Feed({}).ok());
}

TEST_F(SessionTest, SubmodelsOfDifferentContextsDoNotMakeASession) {
  auto checkpoint = Checkpoint::Open(model_.folder());
  ASSERT_TRUE(checkpoint.ok());
  std::vector<std::string> blobs;
  for (int64_t context : {16, 32}) {
    CompileOptions options;
    options.name = "kvcache";
    options.context = context;
    auto blob = Compile(**checkpoint, options);
    ASSERT_TRUE(blob.ok()) << blob.status();
    blobs.push_back(*blob);
  }
  const auto session = Session::Load(place_.npu, place_.bank, blobs, (*checkpoint)->index(), {});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kInvalidArgument);
}

// Sizes that are fine one by one and wrap around in sum would leave a state a cache of a few bytes.
TEST_F(SessionTest, StatesThatNoDeviceHoldsAreRefused) {
  auto checkpoint = Checkpoint::Open(model_.folder());
  ASSERT_TRUE(checkpoint.ok());
  CompileOptions options;
  options.name = "kvcache";
  options.context = 32;
  auto blob = Compile(**checkpoint, options);
  ASSERT_TRUE(blob.ok()) << blob.status();
  auto compiled = ReadCompiledSubmodel(*blob, (*checkpoint)->index());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  SubmodelDescription& submodel = compiled->description;
  for (int i = 0; i < 4; ++i) {
    const auto type =
        TensorType::Create(ElementType::kU8, Shape::Create({int64_t{1} << 61}).value()).value();
    submodel.calls[0].arguments.push_back(
        {"state", false, static_cast<uint32_t>(submodel.values.size())});
    submodel.values.push_back(
        {"state" + std::to_string(i), type, SubmodelDescription::Placement::kState});
  }
  const auto group = SubmodelGroup::Register(place_.npu, place_.bank, {submodel}, "");
  EXPECT_EQ(group.status().code(), absl::StatusCode::kInvalidArgument) << group.status();
  EXPECT_NE(group.status().message().find("state 'state0' of 2305843009213693952 bytes"),
            absl::string_view::npos)
      << group.status();
}

}  // namespace
}  // namespace npubank

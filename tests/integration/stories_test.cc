// A real trained model through the whole path: checkpoint, compiler, bank, loader, software NPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

class StoriesTest : public NpuTest {
 protected:
  std::unique_ptr<ModelRun> Load(const std::string& folder, WeightFormat weights,
                                 int64_t chunk = 16) {
    ModelRunOptions options;
    options.model = folder;
    options.weights = weights;
    options.chunk = chunk;
    auto run = ModelRun::Load(options, place_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }

  static nlohmann::json ExpectedPrompts() {
    std::ifstream file(StoriesFolder() + "/expected/prompts.json");
    return nlohmann::json::parse(file);
  }

  static void ExpectEveryPromptContinued(ModelRun& run) {
    const nlohmann::json cases = ExpectedPrompts()["cases"];
    ASSERT_EQ(cases.size(), 3u);
    for (const auto& expected : cases) {
      const std::string text = expected["prompt"];
      auto prompt = run.Encode(text);
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      ASSERT_EQ(prompt->size(), expected["n_prompt"]) << text;
      const std::vector<int32_t> ids = expected["ids"];
      ASSERT_TRUE(
          run.Generate(*prompt, ids.size() - prompt->size(), [](absl::string_view) {}).ok());
      EXPECT_EQ(run.speech().ids, ids) << "prompt: " << text;
      EXPECT_EQ(run.speech().text, expected["text"].get<std::string>()) << "prompt: " << text;
    }
  }
};

TEST_F(StoriesTest, F32WeightsContinueEveryPromptIdForIdOverAllSteps) {
  auto run = Load(StoriesFolder(), WeightFormat::kF32);
  ASSERT_NE(run, nullptr);
  ExpectEveryPromptContinued(*run);
}

TEST_F(StoriesTest, F32WeightsKeptAsStoredContinueEveryPromptIdForId) {
  auto run = Load(StoriesFolder(), WeightFormat::kKeep);
  ASSERT_NE(run, nullptr);
  ExpectEveryPromptContinued(*run);
}

TEST_F(StoriesTest, TheShardedCheckpointContinuesEveryPromptIdForId) {
  const TemporaryFolder folder;
  WriteShardedStories(folder.path());
  folder.Write("tokens.json", ReadWholeFile(StoriesFolder() + "/tokens.json"));
  auto run = Load(folder.path(), WeightFormat::kF32);
  ASSERT_NE(run, nullptr);
  ExpectEveryPromptContinued(*run);
}

TEST_F(StoriesTest, LogitsOfOnceUponATimeAreWithinAThousandthOfTheReference) {
  std::ifstream file(StoriesFolder() + "/expected/once16_logits.f32", std::ios::binary);
  std::vector<float> expected(16 * 512);
  file.read(reinterpret_cast<char*>(expected.data()), expected.size() * sizeof(float));
  ASSERT_TRUE(file.good());
  std::vector<int32_t> ids;
  const nlohmann::json cases = ExpectedPrompts()["cases"];
  for (const auto& prompt : cases)
    if (prompt["prompt"] == "Once upon a time") ids = prompt["ids"].get<std::vector<int32_t>>();
  ASSERT_GE(ids.size(), 16u);

  const TemporaryFolder sharded;
  WriteShardedStories(sharded.path());
  for (const std::string& folder : {StoriesFolder(), sharded.path()}) {
    auto run = Load(folder, WeightFormat::kF32);
    ASSERT_NE(run, nullptr);
    // Position by position through the kvcache submodel.
    for (int position = 0; position < 16; ++position) {
      auto logits = run->session().Feed({ids[position]});
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (int i = 0; i < 512; ++i)
        ASSERT_NEAR((*logits)[i], expected[position * 512 + i], 1e-3)
            << folder << " position " << position << " token " << i;
    }
    // And in one go through the prefill submodel: the last position's logits.
    run->session().Rewind();
    auto logits = run->session().Feed(absl::MakeSpan(ids).subspan(0, 16));
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (int i = 0; i < 512; ++i)
      ASSERT_NEAR((*logits)[i], expected[15 * 512 + i], 1e-3) << folder << " token " << i;
  }
}

TEST_F(StoriesTest, PromptsLongerThanTheChunkGiveTheSameLogitsBitForBit) {
  const std::vector<int32_t> ids = ExpectedPrompts()["cases"][0]["ids"];
  const absl::Span<const int32_t> prompt = absl::MakeSpan(ids).subspan(0, 41);
  std::vector<std::vector<float>> results;
  for (int64_t chunk : {1, 3, 16, 64}) {
    auto run = Load(StoriesFolder(), WeightFormat::kF32, chunk);
    ASSERT_NE(run, nullptr);
    auto logits = run->session().Feed(prompt);
    ASSERT_TRUE(logits.ok()) << logits.status();
    results.emplace_back(logits->begin(), logits->end());
  }
  for (const std::vector<float>& result : results) EXPECT_EQ(result, results.front());
}

TEST_F(StoriesTest, HalfPrecisionWeightsStayWithinTheirMeasuredTolerance) {
  const std::vector<int32_t> ids = ExpectedPrompts()["cases"][1]["ids"];
  const absl::Span<const int32_t> prompt = absl::MakeSpan(ids).subspan(0, 32);
  auto exact = Load(StoriesFolder(), WeightFormat::kF32);
  ASSERT_NE(exact, nullptr);
  const auto reference = exact->session().Feed(prompt);
  ASSERT_TRUE(reference.ok());
  for (const auto& [format, tolerance] :
       {std::pair{WeightFormat::kF16, 0.017}, {WeightFormat::kBF16, 0.13}}) {
    auto run = Load(StoriesFolder(), format);
    ASSERT_NE(run, nullptr);
    const auto logits = run->session().Feed(prompt);
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (int i = 0; i < 512; ++i) ASSERT_NEAR((*logits)[i], (*reference)[i], tolerance);
  }
}

TEST_F(StoriesTest, BothSubmodelsShareEveryWeightAndNoSourceByteIsLeft) {
  auto run = Load(StoriesFolder(), WeightFormat::kF32);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  const std::vector<SubmodelReport>& submodels = run->model().submodels;
  ASSERT_EQ(submodels.size(), 2u);
  EXPECT_EQ(submodels[0].hits, 0u);
  EXPECT_EQ(submodels[1].hits, submodels[1].weights);
  const BankTotals totals = place_.bank->Totals();
  EXPECT_EQ(totals.unique_bytes, submodels[0].weight_bytes);
  EXPECT_EQ(totals.shared_bytes_saved, submodels[1].weight_bytes);
  // 5 layers of 9 weights, the final norm, and the embedding table, which is also the head.
  EXPECT_EQ(totals.unique_tensors, 5 * 9 + 2u);
  EXPECT_EQ(totals.unique_bytes, 260032u * 4);
  EXPECT_GE(totals.device_bytes, totals.unique_bytes);
  EXPECT_LE(totals.device_bytes, totals.unique_bytes + totals.unique_tensors * 4096);
  EXPECT_EQ(Driver().live_bytes, totals.device_bytes);
}

}  // namespace
}  // namespace npubank

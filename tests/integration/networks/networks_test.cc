// Every network that is supported, as a folder and as GGUF, in F32 and quantised, through the whole path: checkpoint,
// compiler, bank, software NPU; against plain loops that share nothing with it but the weights' numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/integration/networks/network_shapes.h"
#include "npubank/tests/integration/networks/plain_decoder.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

// Longer than the largest chunk and than every window.
std::vector<int32_t> Prompt(size_t tokens) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>((7 + i * i * 31) % 300));
  return prompt;
}

class NetworksTest : public NpuTest, public ::testing::WithParamInterface<NamedShape> {
 protected:
  std::unique_ptr<ModelRun> Load(int64_t chunk, AttentionForm attention = AttentionForm::kWhole,
                                 WeightFormat weights = WeightFormat::kKeep) {
    ModelRunOptions options;
    options.model = model_.model();
    options.weights = weights;
    options.chunk = chunk;
    options.context = 80;
    options.attention = attention;
    auto run = ModelRun::Load(options, place_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }
  // Of the last token.
  static std::vector<float> Logits(ModelRun& run, absl::Span<const int32_t> tokens) {
    const auto logits = run.session().Feed(tokens);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  }

  const TestModel model_{GetParam().shape};
};

TEST_P(NetworksTest, LogitsAreThoseOfPlainLoops) {
  auto checkpoint = Checkpoint::Open(model_.model());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  PlainDecoder plain(**checkpoint, GetParam().shape);
  for (const auto& [attention, weights] : {std::pair{AttentionForm::kWhole, WeightFormat::kKeep},
                                           {AttentionForm::kPerHead, WeightFormat::kKeep},
                                           {AttentionForm::kWhole, WeightFormat::kPacked}}) {
    auto run = Load(8, attention, weights);
    ASSERT_NE(run, nullptr);
    for (const size_t length : {1u, 2u, 17u, 30u}) {
      const std::vector<double> expected = plain.Logits(Prompt(length));
      run->session().Rewind();
      const std::vector<float> logits = Logits(*run, Prompt(length));
      ASSERT_EQ(logits.size(), expected.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], expected[i], 1e-4) << length << " tokens, logit " << i;
      }
    }
  }
}

TEST_P(NetworksTest, ChunksGiveTheBitsOfOneTokenAtATime) {
  const std::vector<int32_t> prompt = Prompt(75);
  std::vector<float> one_by_one;
  {
    auto run = Load(64);
    ASSERT_NE(run, nullptr);
    for (const int32_t token : prompt) one_by_one = Logits(*run, {&token, 1});
  }
  for (const int64_t chunk : {1, 7, 64}) {
    auto run = Load(chunk);
    ASSERT_NE(run, nullptr);
    EXPECT_EQ(Logits(*run, prompt), one_by_one) << "chunks of " << chunk;
  }
}

TEST_P(NetworksTest, PrefillAndKvcacheShareEveryWeightAndNoSourceByteIsLeft) {
  auto run = Load(16);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  const std::vector<SubmodelReport>& submodels = run->model().submodels;
  ASSERT_EQ(submodels.size(), 2u);
  EXPECT_GT(submodels[1].weights, 0u);
  EXPECT_EQ(submodels[1].hits, submodels[1].weights);
  const BankTotals totals = place_.bank->Totals();
  // Once for each, whether or not one submodel names it several times, as Phi-3's parts of one tensor do its groups.
  EXPECT_EQ(totals.shared_bytes_saved, totals.unique_bytes);
  EXPECT_EQ(Driver().live_bytes, totals.device_bytes);
}

// Twice with the cache: what the first run transformed, the second one finds.
TEST_P(NetworksTest, EveryMemoryStrategyAndTheCacheGiveTheSameBits) {
  const std::vector<int32_t> prompt = Prompt(20);
  const TemporaryFolder folder;
  place_ = BankPlace();
  const NpuSwitches switches({{"NPUBANK_NPU_IMPORT", "1"}, {"NPUBANK_NPU_VIRTUAL_MEMORY", "1"}});
  const auto open_with = [&](MemoryStrategy strategy, std::shared_ptr<CacheFile> cache) {
    place_ = BankPlace();
    auto place = BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/2,
                                 {.strategy = strategy}, {.cache = std::move(cache)});
    ASSERT_TRUE(place.ok()) << place.status();
    place_ = *std::move(place);
  };
  std::vector<float> expected;
  for (const MemoryStrategy strategy :
       {MemoryStrategy::kCommitted, MemoryStrategy::kPlaced, MemoryStrategy::kTiled,
        MemoryStrategy::kImported, MemoryStrategy::kAuto}) {
    open_with(strategy, nullptr);
    auto run = Load(16);
    ASSERT_NE(run, nullptr);
    const std::vector<float> logits = Logits(*run, prompt);
    if (expected.empty()) expected = logits;
    EXPECT_EQ(logits, expected) << MemoryStrategyName(strategy);
  }
  for (const bool first : {true, false}) {
    const auto cache = CacheFile::Open({.path = folder.File("weights.cache")});
    open_with(MemoryStrategy::kPlaced, cache);
    auto run = Load(16, AttentionForm::kWhole, WeightFormat::kF32);
    ASSERT_NE(run, nullptr);
    const BankTotals totals = place_.bank->Totals();
    EXPECT_EQ(totals.cache_hits > 0, !first);
    const std::vector<float> logits = Logits(*run, prompt);
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4) << first;
    EXPECT_TRUE(cache->Save().ok());
  }
  place_ = BankPlace();
}

INSTANTIATE_TEST_SUITE_P(
    All, NetworksTest,
    ::testing::ValuesIn(NetworkShapes({{"f32", {.format = CheckpointFormat::kSafetensors}},
                                       {"gguf_f32", {.format = CheckpointFormat::kGgufF32}},
                                       {"gguf_q4_0", {.format = CheckpointFormat::kGgufQ4_0}},
                                       {"gptq", {.format = CheckpointFormat::kGptq}},
                                       {"gptq_act_order", {.format = CheckpointFormat::kGptqActOrder}}})),
    [](const auto& test) { return test.param.name; });

// Rows of a stored tensor, in the other forms that one may have.
std::vector<NamedShape> FusedShapes() {
  std::vector<NamedShape> all =
      NetworkShapes({{"awq", {.format = CheckpointFormat::kAwq}},
                     {"gptq_8bit", {.format = CheckpointFormat::kGptq8}},
                     {"int8", {.format = CheckpointFormat::kInt8}},
                     {"pack_int4", {.format = CheckpointFormat::kPackInt4}},
                     {"gguf_q8_0", {.format = CheckpointFormat::kGgufQ8_0}}});
  std::erase_if(all, [](const NamedShape& named) {
    return named.shape.network != CheckpointNetwork::kPhi3 || named.shape.original_context != 0;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Fused, NetworksTest, ::testing::ValuesIn(FusedShapes()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace npubank

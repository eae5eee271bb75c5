// Files of GGUF's blocks, K-quants among them, against a Llama in plain loops: the story model is too narrow for blocks of
// 256, so these are made up. That PlainLlama reads the blocks as llama.cpp does is llama_cpp_test's to show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "npubank/tests/integration/weights/plain_llama.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

constexpr size_t kIds = 200;

struct Format {
  const char* name;
  CheckpointFormat format;
};

CheckpointShape ShapeOf(CheckpointFormat format) {
  return {.layers = 2,
          .hidden = 256,
          .heads = 4,
          .kv_heads = 2,
          .intermediate = 512,
          .vocab = 300,
          .context = 256,
          .format = format};
}

using Parameters = std::tuple<Format, bool>;  // and whether the driver imports

class BlockFormatsTest : public NpuTest, public ::testing::WithParamInterface<Parameters> {
 protected:
  static bool import() { return std::get<bool>(GetParam()); }
  void SetUp() override {
    if (import()) strategy_ = MemoryStrategy::kImported;
    NpuTest::SetUp();
  }

  // Fed what the plain model goes on with by itself.
  void ExpectSame(const std::string& model, WeightFormat weights, const std::vector<int32_t>& ids,
                  const std::vector<std::vector<float>>& plain) {
    ModelRunOptions options;
    options.model = model;
    options.weights = weights;
    auto run = ModelRun::Load(options, place_);
    ASSERT_TRUE(run.ok()) << run.status();
    if (import() && weights == WeightFormat::kKeep) {
      EXPECT_EQ(place_.memory->Usage().imported_bytes, place_.bank->Totals().unique_bytes);
    }
    for (size_t step = 0; step < plain.size(); ++step) {
      const auto logits = (*run)->session().Feed({ids[step]});
      ASSERT_TRUE(logits.ok()) << logits.status();
      ASSERT_EQ(logits->size(), plain[step].size());
      for (size_t i = 0; i < logits->size(); ++i) {
        ASSERT_NEAR((*logits)[i], plain[step][i], 1e-3) << "step " << step << ", logit " << i;
      }
      ASSERT_EQ(Argmax(*logits), Argmax(plain[step])) << "step " << step;
    }
  }

 private:
  const NpuSwitches switches_{{{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", "16"},
                               {"NPUBANK_NPU_VIRTUAL_MEMORY", import() ? "1" : "0"},
                               {"NPUBANK_NPU_IMPORT", import() ? "1" : "0"}}};
};

TEST_P(BlockFormatsTest, LogitsAndIdsAreThoseOfPlainLoopsHoweverWeightsAreTaken) {
  const TestModel made_up(ShapeOf(std::get<Format>(GetParam()).format));
  PlainLlama plain(made_up.model(), Activations::kExact);
  std::vector<int32_t> ids = {1};
  std::vector<std::vector<float>> logits;
  while (logits.size() < kIds) {
    logits.push_back(plain.Feed(ids.back()));
    ids.push_back(Argmax(logits.back()));
  }
  for (const WeightFormat weights :
       {WeightFormat::kF32, WeightFormat::kKeep, WeightFormat::kPacked, WeightFormat::kAuto}) {
    SCOPED_TRACE(static_cast<int>(weights));
    ExpectSame(made_up.model(), weights, ids, logits);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, BlockFormatsTest,
    ::testing::Combine(::testing::Values(Format{"q4_0", CheckpointFormat::kGgufQ4_0},
                                         Format{"q8_0", CheckpointFormat::kGgufQ8_0},
                                         Format{"q4_k_mix", CheckpointFormat::kGgufQ4_K},
                                         Format{"q6_k", CheckpointFormat::kGgufQ6_K}),
                       ::testing::Bool()),
    [](const auto& parameters) {
      return std::string(std::get<0>(parameters.param).name) +
             (std::get<1>(parameters.param) ? "_import_on" : "_import_off");
    });

}  // namespace
}  // namespace npubank

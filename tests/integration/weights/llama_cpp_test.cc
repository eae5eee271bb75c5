// The same made-up GGUF files here and in llama.cpp: equal greedy ids. For tests by hand: where nobody has put
// llama.cpp (npm install --ignore-scripts node-llama-cpp, in a folder that NPUBANK_LLAMA_CPP names) it says so and
// skips.
//
// llama.cpp rounds what it multiplies weights by to eight bits. Over random weights, where the best two logits may be
// nearer to each other than that moves them, ids go apart, and then say nothing about either. So all are fed the same
// ids, and a step counts where rounding cannot have decided it:
// - PlainLlama computes a step twice, as it is and with activations rounded as llama.cpp rounds them: how far apart
//   those two are at most, over all steps and logits, is what rounding does to this model.
// - A number that falls between two integers may fall the other way in llama.cpp, which sums in another order, and from there
//   on its noise is another draw of the same size: its largest was up to 1.2 times that of PlainLlama. kSlack allows 1.5.
// - Whatever is ahead of all others by more than twice that must be the likeliest there too.
// Of random models' steps that leaves about half. Where no number fell the other way, llama.cpp's logits are those of PlainLlama's
// rounded run to seven digits: what else the two could differ in, a layout read wrongly, is not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "npubank/tests/integration/weights/plain_llama.h"
#include "npubank/tests/support/gguf_vocabulary.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

constexpr int kSeeds = 6;
constexpr int kSteps = 16;
constexpr float kSlack = 1.5f;
const std::vector<int32_t> kPrompt = {1, 5, 9, 2, 7, 3};
constexpr int kSkipped = 5;  // ids whose logits are not asked for

struct Format {
  const char* name;
  CheckpointFormat format;
};

CheckpointShape ShapeOf(CheckpointFormat format, uint64_t seed) {
  return {.layers = 4,
          .hidden = 256,
          .heads = 4,
          .kv_heads = 2,
          .intermediate = 768,
          .vocab = 300,
          .context = 64,
          .seed = seed,
          .format = format};
}

using Logits = std::vector<std::vector<float>>;  // of each step

class LlamaCppTest : public NpuTest, public ::testing::WithParamInterface<Format> {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    if (folder_ == nullptr) GTEST_SKIP() << "NPUBANK_LLAMA_CPP names no folder with node-llama-cpp in it";
  }

  // What the plain model goes on with by itself: the ids that all are fed.
  static std::vector<int32_t> Story(const std::string& model) {
    PlainLlama plain(model, Activations::kExact);
    std::vector<int32_t> ids = kPrompt;
    std::vector<float> logits;
    for (const int32_t id : kPrompt) logits = plain.Feed(id);
    for (int step = 1; step < kSteps; ++step) {
      ids.push_back(Argmax(logits));
      logits = plain.Feed(ids.back());
    }
    return ids;
  }
  static Logits Plain(const std::string& model, const std::vector<int32_t>& ids, Activations activations) {
    PlainLlama plain(model, activations);
    Logits all;
    for (const int32_t id : ids) all.push_back(plain.Feed(id));
    return Logits(all.begin() + kSkipped, all.end());
  }
  Logits Ours(const std::string& model, const std::vector<int32_t>& ids, WeightFormat weights) {
    ModelRunOptions options;
    options.model = model;
    options.weights = weights;
    auto run = ModelRun::Load(options, place_);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return {};
    Logits all;
    for (const int32_t id : ids) {
      const auto logits = (*run)->session().Feed({id});
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) return {};
      all.emplace_back(logits->begin(), logits->end());
    }
    return Logits(all.begin() + kSkipped, all.end());
  }
  Logits Theirs(const std::string& model, const std::vector<int32_t>& ids) const {
    std::vector<std::string> arguments = {
        "/usr/bin/env", "node",        NPUBANK_SOURCE_DIR "/tests/integration/weights/llama_cpp.mjs",
        folder_,        model, absl::StrCat(kSkipped)};
    for (const int32_t id : ids) arguments.push_back(absl::StrCat(id));
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.error;
    Logits all;
    for (absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      all.emplace_back();
      for (absl::string_view number : absl::StrSplit(line, ' ')) {
        float logit = 0;
        EXPECT_TRUE(absl::SimpleAtof(number, &logit)) << number;
        all.back().push_back(logit);
      }
    }
    return all;
  }

  const char* const folder_ = std::getenv("NPUBANK_LLAMA_CPP");
};

float Difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

float Difference(const Logits& a, const Logits& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, Difference(a[i], b[i]));
  return largest;
}

// By how much the likeliest is ahead of the next.
float Margin(std::vector<float> logits) {
  std::partial_sort(logits.begin(), logits.begin() + 2, logits.end(), std::greater<>());
  return logits[0] - logits[1];
}

TEST_P(LlamaCppTest, GivesTheSameIdsWhereRoundingDoesNotDecide) {
  int decided = 0, reproduced = 0;
  for (uint64_t seed = 1; seed <= uint64_t{kSeeds}; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const CheckpointShape shape = ShapeOf(GetParam().format, seed);
    const TestModel made_up(shape);
    const std::string model = made_up.file("with_vocabulary.gguf");
    AddVocabulary(made_up.model(), shape.vocab, model);
    const std::vector<int32_t> ids = Story(model);
    const Logits exact = Plain(model, ids, Activations::kExact);
    const Logits rounded = Plain(model, ids, Activations::kEightBits);
    const Logits theirs = Theirs(model, ids);
    ASSERT_EQ(theirs.size(), size_t{kSteps});
    for (const WeightFormat weights : {WeightFormat::kKeep, WeightFormat::kPacked, WeightFormat::kF32}) {
      ASSERT_LE(Difference(Ours(model, ids, weights), exact), 1e-3f) << static_cast<int>(weights);
    }
    const float noise = kSlack * Difference(rounded, exact);
    EXPECT_LE(Difference(theirs, exact), noise);
    for (size_t step = 0; step < kSteps; ++step) {
      if (Difference(theirs[step], rounded[step]) < 1e-5f) ++reproduced;
      const int32_t id = Argmax(exact[step]);
      if (Margin(exact[step]) > 2 * noise) {
        ++decided;
        EXPECT_EQ(Argmax(theirs[step]), id) << "step " << step;
      } else if (Argmax(theirs[step]) != id) {
        std::printf("%s, seed %d, step %d: theirs is another, ours is %.4f ahead of the next; they are up to %.4f apart\n",
                    GetParam().name, static_cast<int>(seed), static_cast<int>(step), Margin(exact[step]),
                    Difference(theirs[step], exact[step]));
      }
    }
  }
  std::printf("%s: %d steps, %d decided, in %d their logits are ours with rounded activations\n", GetParam().name,
              kSeeds * kSteps, decided, reproduced);
  EXPECT_GE(decided * 3, kSeeds * kSteps);
  EXPECT_GT(reproduced, 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, LlamaCppTest,
                         ::testing::Values(Format{"q4_0", CheckpointFormat::kGgufQ4_0},
                                           Format{"q8_0", CheckpointFormat::kGgufQ8_0},
                                           Format{"q4_k_mix", CheckpointFormat::kGgufQ4_K},
                                           Format{"q6_k", CheckpointFormat::kGgufQ6_K}),
                         [](const auto& format) { return std::string(format.param.name); });

}  // namespace
}  // namespace npubank

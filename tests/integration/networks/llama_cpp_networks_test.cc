// The same made-up F32 file of each network here and in llama.cpp: equal greedy ids over 32 tokens. For tests by hand:
// where nobody has put llama.cpp (npm install --ignore-scripts node-llama-cpp, in a folder that NPUBANK_LLAMA_CPP names)
// it says so and skips.
//
// llama.cpp keeps keys and values in F16, which moves logits in the fourth digit: a step counts where our first two
// logits are at least 1e-3 apart. Both are fed the same ids, which are our own. llama.cpp has no window for Mistral's
// files, which are llama's (its issues 3371 and 3377), and leaves Phi-3's out ("Phi SWA is currently disabled", its pull
// request 13676): so do the files here. A window is compared where there is one layer: what that sees of a position is
// what llama.cpp sees when it is fed the window's tokens alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "npubank/tests/integration/networks/network_shapes.h"
#include "npubank/tests/support/gguf_vocabulary.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

constexpr int kTokens = 32;
constexpr float kApart = 1e-3f;
const std::vector<int32_t> kPrompt = {1, 5, 9, 2, 7, 3};

using Logits = std::vector<std::vector<float>>;  // of each of the tokens

class LlamaCppNetworksTest : public NpuTest, public ::testing::WithParamInterface<NamedShape> {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    if (folder_ == nullptr)
      GTEST_SKIP() << "NPUBANK_LLAMA_CPP names no folder with node-llama-cpp in it";
  }

  // Goes on with the likeliest; `ids` are the prompt's and those.
  Logits Ours(const std::string& model, std::vector<int32_t>& ids) {
    ModelRunOptions options;
    options.model = model;
    options.context = 64;
    auto run = ModelRun::Load(options, place_);
    EXPECT_TRUE(run.ok()) << run.status();
    Logits all;
    for (absl::Span<const int32_t> next = ids; run.ok() && all.size() < kTokens;
         next = {&ids.back(), 1}) {
      const auto logits = (*run)->session().Feed(next);
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) break;
      all.emplace_back(logits->begin(), logits->end());
      ids.push_back(Argmax(*logits));
    }
    return all;
  }

  // After each of `ids` but the first `skip`.
  Logits Theirs(const std::string& model, absl::Span<const int32_t> ids, size_t skip) const {
    std::vector<std::string> arguments = {
        "/usr/bin/env", "node", NPUBANK_SOURCE_DIR "/tests/integration/weights/llama_cpp.mjs",
        folder_,        model,  absl::StrCat(skip)};
    for (const int32_t id : ids) arguments.push_back(absl::StrCat(id));
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.error;
    Logits all;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      all.emplace_back();
      for (const absl::string_view number : absl::StrSplit(line, ' ')) {
        EXPECT_TRUE(absl::SimpleAtof(number, &all.back().emplace_back())) << number;
      }
    }
    return all;
  }

  const char* const folder_ = std::getenv("NPUBANK_LLAMA_CPP");
};

TEST_P(LlamaCppNetworksTest, GoesOnWithTheSameIds) {
  const TestModel made_up(GetParam().shape);
  const std::string model = made_up.file("with_vocabulary.gguf");
  AddVocabulary(made_up.model(), GetParam().shape.vocab, model);
  std::vector<int32_t> ids = kPrompt;
  const Logits ours = Ours(model, ids);
  ids.pop_back();  // what the last one goes on with is not asked for
  const Logits theirs = Theirs(model, ids, kPrompt.size() - 1);
  ASSERT_EQ(ours.size(), size_t{kTokens});
  ASSERT_EQ(theirs.size(), ours.size());
  int counted = 0;
  float most = 0;
  for (size_t step = 0; step < ours.size(); ++step) {
    ASSERT_EQ(theirs[step].size(), ours[step].size());
    for (size_t i = 0; i < ours[step].size(); ++i)
      most = std::max(most, std::abs(ours[step][i] - theirs[step][i]));
    std::vector<float> sorted = ours[step];
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    if (sorted[0] - sorted[1] < kApart) continue;
    ++counted;
    EXPECT_EQ(Argmax(theirs[step]), Argmax(ours[step])) << "token " << step;
  }
  std::printf("%s: %d of %d tokens, logits at most %.1e apart\n", GetParam().name.c_str(), counted,
              kTokens, static_cast<double>(most));
  EXPECT_LT(most, kApart);
  EXPECT_GE(counted, kTokens * 3 / 4) << "too few tokens to say anything";
}

float MostApart(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class LlamaCppWindowTest : public LlamaCppNetworksTest {};

// Rotary positions count from one another, so that the window's tokens may begin at zero.
TEST_P(LlamaCppWindowTest, APositionSeesWhatLlamaCppSeesOfTheWindowAlone) {
  const TestModel made_up(GetParam().shape);
  const auto window = static_cast<size_t>(GetParam().shape.window);
  const std::string model = made_up.file("with_vocabulary.gguf");
  AddVocabulary(made_up.model(), GetParam().shape.vocab, model);
  std::vector<int32_t> ids = kPrompt;
  const Logits ours = Ours(model, ids);
  ASSERT_EQ(ours.size(), size_t{kTokens});
  for (const size_t end : {window - 1, window, window + 1, 2 * window, ids.size() - 1}) {
    const size_t begin = end > window ? end - window : 0;
    const auto seen = absl::MakeConstSpan(ids).subspan(begin, end - begin);
    const Logits theirs = Theirs(model, seen, seen.size() - 1);
    ASSERT_EQ(theirs.size(), 1u);
    const float most = MostApart(ours[end - kPrompt.size()], theirs[0]);
    std::printf("%zu tokens, the last %zu: logits at most %.1e apart\n", end, seen.size(), static_cast<double>(most));
    EXPECT_LT(most, kApart) << end << " tokens";
    if (begin == 0) continue;
    const Logits all = Theirs(model, absl::MakeConstSpan(ids).first(end), end - 1);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_GT(MostApart(ours[end - kPrompt.size()], all[0]), 3 * kApart) << "no window makes a difference here";
  }
}

std::vector<NamedShape> OneLayer() {
  NamedShape phi3 = {"phi3", NetworkShape(CheckpointNetwork::kPhi3, CheckpointFormat::kGgufF32)};
  phi3.shape.layers = 1;
  return {phi3};
}

INSTANTIATE_TEST_SUITE_P(OneLayer, LlamaCppWindowTest, ::testing::ValuesIn(OneLayer()),
                         [](const auto& test) { return test.param.name; });

std::vector<NamedShape> Files() {
  std::vector<NamedShape> files =
      NetworkShapes({{"gguf_f32", {.format = CheckpointFormat::kGgufF32}}});
  for (NamedShape& file : files) file.shape.window = 0;
  return files;
}

INSTANTIATE_TEST_SUITE_P(All, LlamaCppNetworksTest, ::testing::ValuesIn(Files()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace npubank

// The same made-up GGUF file here and in llama.cpp: equal greedy ids. For tests by hand: where nobody has put
// llama.cpp (npm install --ignore-scripts node-llama-cpp, in a folder that NPUBANK_LLAMA_CPP names) it says so and
// skips.
//
// llama.cpp rounds what it multiplies weights by to eight bits, which changes logits in the third digit: over random
// weights, where the best two of them may be that near, ids go apart sooner or later. The seed is one with which they do
// not within eight tokens; a layout that is read wrongly differs at the first.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

constexpr int kTokens = 8;
const std::vector<int32_t> kPrompt = {1, 5, 9, 2, 7, 3};

struct Format {
  const char* name;
  CheckpointFormat format;
};

CheckpointShape ShapeOf(CheckpointFormat format) {
  CheckpointShape shape;
  shape.layers = 4;
  shape.hidden = 256;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.intermediate = 768;
  shape.vocab = 300;
  shape.context = 64;
  shape.format = format;
  shape.seed = 3;
  return shape;
}

template <typename Number>
std::string Little(Number number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}
std::string Text(const std::string& text) { return Little(uint64_t{text.size()}) + text; }

// llama.cpp opens no model without a vocabulary: SentencePiece's, with a piece for every byte.
struct Vocabulary {
  static constexpr uint64_t kKeys = 5;

  explicit Vocabulary(int64_t size) {
    constexpr uint32_t kInt32 = 5, kFloat = 6, kString = 8, kArray = 9;
    std::string pieces, scores, kinds;
    for (int64_t i = 0; i < size; ++i) {
      const bool byte = i >= 3 && i < 259;
      pieces += Text(byte ? absl::StrFormat("<0x%02X>", i - 3) : absl::StrCat("w", i));
      scores += Little(-static_cast<float>(i));
      kinds += Little(int32_t{i == 0 ? 2 : i < 3 ? 3 : byte ? 6 : 1});
    }
    const auto array = [&](const char* key, uint32_t type, const std::string& values) {
      bytes += Text(key) + Little(kArray) + Little(type) + Little(static_cast<uint64_t>(size)) + values;
    };
    bytes += Text("tokenizer.ggml.model") + Little(kString) + Text("llama");
    array("tokenizer.ggml.tokens", kString, pieces);
    array("tokenizer.ggml.scores", kFloat, scores);
    array("tokenizer.ggml.token_type", kInt32, kinds);
  }
  std::string bytes;
};

template <typename Number>
Number NumberAt(const std::string& bytes, size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// A copy with a vocabulary before its other metadata. Tensors keep their offsets, which count from the data.
void AddVocabulary(const std::string& from, int64_t size, const std::string& to) {
  constexpr size_t kMetadata = 24, kAlignment = 32;
  const Vocabulary vocabulary(size);
  std::string bytes = ReadWholeFile(from);
  const uint64_t keys = NumberAt<uint64_t>(bytes, 16) + Vocabulary::kKeys;
  std::memcpy(bytes.data() + 16, &keys, sizeof(keys));
  // A key that says nothing makes what is put in a multiple of the alignment, so that the data's place stays one.
  const std::string filler = Text("general.filler") + Little(uint32_t{8});
  const size_t length = vocabulary.bytes.size() + filler.size() + Text("").size();
  const std::string dots((kAlignment - length % kAlignment) % kAlignment, '.');
  bytes.insert(kMetadata, vocabulary.bytes + filler + Text(dots));
  WriteWholeFile(to, bytes);
}

class LlamaCppTest : public NpuTest, public ::testing::WithParamInterface<Format> {
 protected:
  void SetUp() override {
    NpuTest::SetUp();
    if (folder_ == nullptr) GTEST_SKIP() << "NPUBANK_LLAMA_CPP names no folder with node-llama-cpp in it";
  }
  std::string OurIds(const std::string& model, WeightFormat weights) {
    ModelRunOptions options;
    options.model = model;
    options.weights = weights;
    auto run = ModelRun::Load(options, place_);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return "";
    std::vector<int32_t> ids;
    for (absl::Span<const int32_t> next = kPrompt; ids.size() < kTokens; next = {&ids.back(), 1}) {
      const auto logits = (*run)->session().Feed(next);
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) break;
      ids.push_back(Argmax(*logits));
    }
    return absl::StrJoin(ids, ",");
  }
  std::string TheirIds(const std::string& model) const {
    std::vector<std::string> arguments = {
        "/usr/bin/env", "node",        NPUBANK_SOURCE_DIR "/tests/integration/llama_cpp.mjs",
        folder_,        model, absl::StrCat(kTokens)};
    for (const int32_t id : kPrompt) arguments.push_back(absl::StrCat(id));
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.error;
    return std::string(absl::StripSuffix(result.out, "\n"));
  }

  const char* const folder_ = std::getenv("NPUBANK_LLAMA_CPP");
};

TEST_P(LlamaCppTest, GoesOnWithTheSameIds) {
  const TestModel made_up(ShapeOf(GetParam().format));
  const std::string model = made_up.file("with_vocabulary.gguf");
  AddVocabulary(made_up.model(), ShapeOf(GetParam().format).vocab, model);
  const std::string theirs = TheirIds(model);
  std::printf("%s: %s\n", GetParam().name, theirs.c_str());
  for (const WeightFormat weights : {WeightFormat::kKeep, WeightFormat::kPacked, WeightFormat::kF32}) {
    EXPECT_EQ(OurIds(model, weights), theirs) << static_cast<int>(weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LlamaCppTest,
                         ::testing::Values(Format{"q4_0", CheckpointFormat::kGgufQ4_0},
                                           Format{"q8_0", CheckpointFormat::kGgufQ8_0},
                                           Format{"q4_k_mix", CheckpointFormat::kGgufQ4_K},
                                           Format{"q6_k", CheckpointFormat::kGgufQ6_K}),
                         [](const auto& format) { return std::string(format.param.name); });

}  // namespace
}  // namespace npubank

// Quantised checkpoints through the whole path, against an F32 run on weights that this file
// dequantises with loops of its own: nothing is shared with the code under test but the readers of
// file headers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/safetensors.h"
#include "npubank/tests/integration/weights/f32_checkpoint.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

constexpr int64_t kLayers = 5;
constexpr int64_t kGroup = 32;  // of the GPTQ, AWQ and packed files

float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const float fraction = static_cast<float>(half & 1023);
  const float magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (half & 0x8000) ? -magnitude : magnitude;
}

// A safetensors file in memory, looked at by name.
class StoredTensors {
 public:
  explicit StoredTensors(const std::string& path) : bytes_(ReadWholeFile(path)) {
    auto source = Source::OpenFile(path);
    EXPECT_TRUE(source.ok()) << source.status();
    auto entries = ReadSafetensors(**source);
    EXPECT_TRUE(entries.ok()) << entries.status();
    entries_ = *entries;
  }
  const TensorEntry& Entry(const std::string& name) const {
    for (const TensorEntry& entry : entries_)
      if (entry.name == name) return entry;
    ADD_FAILURE() << name << " is not in the file";
    return entries_.front();
  }
  int64_t Dim(const std::string& name, int axis) const {
    return Entry(name).type.shape().dim(axis);
  }
  uint32_t Word(const std::string& name, int64_t index) const {
    uint32_t word = 0;
    std::memcpy(&word, bytes_.data() + Entry(name).offset + index * 4, 4);
    return word;
  }
  float Half(const std::string& name, int64_t index) const {
    uint16_t half = 0;
    std::memcpy(&half, bytes_.data() + Entry(name).offset + index * 2, 2);
    return HalfToFloat(half);
  }
  std::vector<float> Halves(const std::string& name) const {
    std::vector<float> values(Entry(name).type.num_elements());
    for (size_t i = 0; i < values.size(); ++i) values[i] = Half(name, i);
    return values;
  }

 private:
  std::string bytes_;
  std::vector<TensorEntry> entries_;
};

uint32_t Nibble(uint32_t word, int64_t index) { return (word >> (4 * index)) & 15; }

// [out, in] of GPTQ: words hold eight, or four, rows of one column; version 1 stores zeros one too small. g_idx is
// the group of each input, in whatever order.
template <int kBits = 4, int kVersion = 1>
std::vector<float> DequantizeGptq(const StoredTensors& file, const std::string& prefix,
                                  std::vector<int64_t>& shape) {
  constexpr int64_t kInWord = 32 / kBits;
  constexpr uint32_t kMost = (1u << kBits) - 1;
  const int64_t in = file.Dim(prefix + ".qweight", 0) * kInWord;
  const int64_t out = file.Dim(prefix + ".qweight", 1);
  shape = {out, in};
  std::vector<float> weight(in * out);
  for (int64_t k = 0; k < in; ++k)
    for (int64_t n = 0; n < out; ++n) {
      const int64_t g = file.Word(prefix + ".g_idx", k);
      const uint32_t qs = file.Word(prefix + ".qweight", k / kInWord * out + n);
      const uint32_t zeros = file.Word(prefix + ".qzeros", g * (out / kInWord) + n / kInWord);
      const uint32_t q = qs >> (kBits * (k % kInWord)) & kMost;
      const uint32_t zero = ((zeros >> (kBits * (n % kInWord))) + (kVersion == 1 ? 1 : 0)) & kMost;
      weight[n * in + k] = (static_cast<int>(q) - static_cast<int>(zero)) * file.Half(prefix + ".scales", g * out + n);
    }
  return weight;
}

// [out, in] of AWQ: words hold eight columns of one row, interleaved.
std::vector<float> DequantizeAwq(const StoredTensors& file, const std::string& prefix,
                                 std::vector<int64_t>& shape) {
  constexpr int kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};  // which nibble holds column 0, 1, 2, ...
  const int64_t in = file.Dim(prefix + ".qweight", 0);
  const int64_t out = file.Dim(prefix + ".qweight", 1) * 8;
  shape = {out, in};
  std::vector<float> weight(in * out);
  for (int64_t k = 0; k < in; ++k)
    for (int64_t n = 0; n < out; ++n) {
      const int64_t g = k / kGroup;
      const int q = Nibble(file.Word(prefix + ".qweight", k * (out / 8) + n / 8), kPlace[n % 8]);
      const int zero = Nibble(file.Word(prefix + ".qzeros", g * (out / 8) + n / 8), kPlace[n % 8]);
      weight[n * in + k] = (q - zero) * file.Half(prefix + ".scales", g * out + n);
    }
  return weight;
}

float BrainToFloat(uint32_t brain) {
  const uint32_t bits = brain << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// [out, in] of compressed-tensors: bytes with a scale for each output.
std::vector<float> DequantizeInt8(const StoredTensors& file, const std::string& prefix,
                                  std::vector<int64_t>& shape) {
  shape = {file.Dim(prefix + ".weight", 0), file.Dim(prefix + ".weight", 1)};
  std::vector<float> weight(shape[0] * shape[1]);
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    const uint32_t word = file.Word(prefix + ".weight", i / 4);
    const auto q = static_cast<int8_t>(word >> (8 * (i % 4)));
    const uint32_t scales = file.Word(prefix + ".weight_scale", i / shape[1] / 2);
    weight[i] = static_cast<float>(q) * BrainToFloat(scales >> (16 * (i / shape[1] % 2)) & 0xffff);
  }
  return weight;
}

// The same of words that hold rows of numbers, with a scale for each group of inputs.
template <int kBits>
std::vector<float> DequantizePacked(const StoredTensors& file, const std::string& prefix,
                                    std::vector<int64_t>& shape) {
  constexpr int kInWord = 32 / kBits;
  shape = {file.Dim(prefix + ".weight_packed", 0), file.Dim(prefix + ".weight_packed", 1) * kInWord};
  std::vector<float> weight(shape[0] * shape[1]);
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    const uint32_t word = file.Word(prefix + ".weight_packed", i / kInWord);
    const int q = static_cast<int>(word >> (kBits * (i % kInWord)) & ((1u << kBits) - 1)) - (1 << (kBits - 1));
    const int64_t group = i / kGroup;
    const uint32_t scales = file.Word(prefix + ".weight_scale", group / 2);
    weight[i] = static_cast<float>(q) * BrainToFloat(scales >> (16 * (group % 2)) & 0xffff);
  }
  return weight;
}

using Dequantize = std::function<std::vector<float>(const StoredTensors&, const std::string&,
                                                    std::vector<int64_t>&)>;

// The F32 twin of a GPTQ or AWQ folder.
std::unique_ptr<F32Checkpoint> Twin(const std::string& folder, const Dequantize& dequantize) {
  auto config = nlohmann::json::parse(ReadWholeFile(folder + "/config.json"));
  config.erase("quantization_config");
  auto twin = std::make_unique<F32Checkpoint>(config.dump());
  const StoredTensors file(folder + "/model.safetensors");
  twin->Add("model.embed_tokens.weight", {512, 64}, file.Halves("model.embed_tokens.weight"));
  twin->Add("model.norm.weight", {64}, file.Halves("model.norm.weight"));
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      twin->Add(prefix + norm + ".weight", {64}, file.Halves(prefix + norm + ".weight"));
    for (const char* matrix :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
          "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      std::vector<int64_t> shape;
      const std::vector<float> weight = dequantize(file, prefix + matrix, shape);
      twin->Add(prefix + matrix + ".weight", shape, weight);
    }
  }
  twin->Write();
  return twin;
}

// One GGUF tensor as F32: plain, Q8_0 or Q4_0.
std::vector<float> GgufValues(const std::string& bytes, const GgufTensor& tensor) {
  std::vector<float> values(tensor.shape.num_elements());
  const char* at = bytes.data() + tensor.offset;
  if (const auto* element = std::get_if<ElementType>(&tensor.format)) {
    EXPECT_EQ(*element, ElementType::kF32) << tensor.name;
    std::memcpy(values.data(), at, values.size() * sizeof(float));
    return values;
  }
  const bool q8 = std::get<kernels::BlockFormat>(tensor.format) == kernels::BlockFormat::kQ8_0;
  for (size_t block = 0; block < values.size() / 32; ++block) {
    uint16_t half = 0;
    std::memcpy(&half, at, 2);
    const float scale = HalfToFloat(half);
    const auto* q = reinterpret_cast<const uint8_t*>(at + 2);
    for (int i = 0; i < 32; ++i) {
      const int level = q8 ? static_cast<int8_t>(q[i]) : (i < 16 ? q[i] & 15 : q[i - 16] >> 4) - 8;
      values[block * 32 + i] = level * scale;
    }
    at += q8 ? 34 : 18;
  }
  return values;
}

// GGUF keeps the two halves of a rotary pair in neighbouring rows; Hugging Face half a head apart.
std::vector<float> RotateHalfRows(const std::vector<float>& weight, int64_t heads, int64_t in) {
  std::vector<float> turned(weight.size());
  const int64_t head_dim = static_cast<int64_t>(weight.size()) / in / heads;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < head_dim / 2; ++i)
      for (int64_t half = 0; half < 2; ++half)
        std::memcpy(&turned[(h * head_dim + half * head_dim / 2 + i) * in],
                    &weight[(h * head_dim + 2 * i + half) * in], in * sizeof(float));
  return turned;
}

std::unique_ptr<F32Checkpoint> GgufTwin(const std::string& path, int64_t intermediate) {
  auto config = nlohmann::json::parse(ReadWholeFile(StoriesFolder() + "/config.json"));
  config["intermediate_size"] = intermediate;
  auto twin = std::make_unique<F32Checkpoint>(config.dump());
  auto source = Source::OpenFile(path);
  EXPECT_TRUE(source.ok()) << source.status();
  auto gguf = ReadGguf(**source);
  EXPECT_TRUE(gguf.ok()) << gguf.status();
  const std::string bytes = ReadWholeFile(path);
  const auto add = [&](const std::string& stored, const std::string& name, int64_t heads) {
    for (const GgufTensor& tensor : gguf->tensors) {
      if (tensor.name != stored) continue;
      std::vector<float> values = GgufValues(bytes, tensor);
      if (heads > 0) values = RotateHalfRows(values, heads, 64);
      twin->Add(name, {tensor.shape.dims().begin(), tensor.shape.dims().end()}, values);
      return;
    }
    ADD_FAILURE() << stored << " is not in " << path;
  };
  add("token_embd.weight", "model.embed_tokens.weight", 0);
  add("output_norm.weight", "model.norm.weight", 0);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string from = "blk." + std::to_string(layer) + ".";
    const std::string to = "model.layers." + std::to_string(layer) + ".";
    add(from + "attn_norm.weight", to + "input_layernorm.weight", 0);
    add(from + "ffn_norm.weight", to + "post_attention_layernorm.weight", 0);
    add(from + "attn_q.weight", to + "self_attn.q_proj.weight", 8);
    add(from + "attn_k.weight", to + "self_attn.k_proj.weight", 4);
    add(from + "attn_v.weight", to + "self_attn.v_proj.weight", 0);
    add(from + "attn_output.weight", to + "self_attn.o_proj.weight", 0);
    add(from + "ffn_gate.weight", to + "mlp.gate_proj.weight", 0);
    add(from + "ffn_up.weight", to + "mlp.up_proj.weight", 0);
    add(from + "ffn_down.weight", to + "mlp.down_proj.weight", 0);
  }
  twin->Write();
  return twin;
}

class QuantizedTest : public NpuTest {
 protected:
  std::unique_ptr<ModelRun> Load(const std::string& model, WeightFormat weights) {
    ModelRunOptions options;
    options.model = model;
    options.weights = weights;
    auto run = ModelRun::Load(options, place_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }

  // What the model goes on with by itself, always with the likeliest.
  std::vector<int32_t> Story(const std::string& model, WeightFormat weights) {
    const auto run = Load(model, weights);
    if (run == nullptr) return {};
    std::vector<int32_t> ids = {1};
    while (ids.size() < 200) {
      const auto logits = run->session().Feed({ids.back()});
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) break;
      ids.push_back(Argmax(*logits));
    }
    return ids;
  }

  // Logits of 48 teacher-forced positions, one after the other.
  std::vector<float> Logits(const std::string& model, WeightFormat weights) {
    const auto run = Load(model, weights);
    if (run == nullptr) return {};
    const auto json =
        nlohmann::json::parse(ReadWholeFile(StoriesFolder() + "/expected/prompts.json"));
    const std::vector<int32_t> ids = json["cases"][1]["ids"];
    std::vector<float> all;
    for (int position = 0; position < 48; ++position) {
      const auto logits = run->session().Feed({ids[position]});
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) return {};
      all.insert(all.end(), logits->begin(), logits->end());
    }
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    return all;
  }

  void ExpectSameLogits(const std::string& model, const F32Checkpoint& twin) {
    const std::vector<float> reference = Logits(twin.folder(), WeightFormat::kF32);
    const std::vector<int32_t> story = Story(twin.folder(), WeightFormat::kF32);
    ASSERT_EQ(reference.size(), 48u * 512);
    for (const WeightFormat weights :
         {WeightFormat::kF32, WeightFormat::kKeep, WeightFormat::kPacked, WeightFormat::kAuto}) {
      const std::vector<float> quantized = Logits(model, weights);
      ASSERT_EQ(reference.size(), quantized.size());
      for (size_t i = 0; i < reference.size(); ++i)
        ASSERT_NEAR(quantized[i], reference[i], 1e-3)
            << model << ", format " << static_cast<int>(weights) << ", logit " << i;
      EXPECT_EQ(Story(model, weights), story) << model;
    }
  }
};

// With import off, as most installed kernels have it, and on.
class QuantizedLogitsTest : public QuantizedTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) strategy_ = MemoryStrategy::kImported;
    QuantizedTest::SetUp();
  }

 private:
  const NpuSwitches switches_{{{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", "1"},
                               {"NPUBANK_NPU_VIRTUAL_MEMORY", GetParam() ? "1" : "0"},
                               {"NPUBANK_NPU_IMPORT", GetParam() ? "1" : "0"}}};
};

INSTANTIATE_TEST_SUITE_P(Import, QuantizedLogitsTest, ::testing::Bool(), [](const auto& import) {
  return std::string(import.param ? "on" : "off");
});

TEST_P(QuantizedLogitsTest, GptqLogitsEqualThoseOfItsWeightsDequantisedByHand) {
  const TemporaryFolder folder;
  WriteGptqStories(folder.path());
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizeGptq<>));
}

TEST_P(QuantizedLogitsTest, GptqLogitsInActivationOrderEqualThoseOfItsWeightsDequantisedByHand) {
  for (const bool symmetric : {true, false}) {
    const TemporaryFolder folder;
    WriteGptqStories(folder.path(), {.act_order = true, .symmetric = symmetric});
    ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizeGptq<>));
  }
}

TEST_P(QuantizedLogitsTest, EightBitGptqLogitsEqualThoseOfItsWeightsDequantisedByHand) {
  const TemporaryFolder folder;
  WriteGptqStories(folder.path(), {.bits = 8});
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizeGptq<8>));
}

TEST_P(QuantizedLogitsTest, EightBitGptqOfVersionTwoInActivationOrderAsWell) {
  const TemporaryFolder folder;
  WriteGptqStories(folder.path(), {.bits = 8, .act_order = true, .symmetric = false, .version = 2});
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizeGptq<8, 2>));
}

TEST_P(QuantizedLogitsTest, AwqLogitsEqualThoseOfItsWeightsDequantisedByHand) {
  const TemporaryFolder folder;
  WriteAwqStories(folder.path());
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizeAwq));
}

TEST_P(QuantizedLogitsTest, Int8LogitsEqualThoseOfItsWeightsDequantisedByHand) {
  const TemporaryFolder folder;
  WriteInt8Stories(folder.path());
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizeInt8));
}

TEST_P(QuantizedLogitsTest, PackedInt8LogitsEqualThoseOfTheirWeightsDequantisedByHand) {
  const TemporaryFolder folder;
  WritePackedStories(folder.path(), 8);
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizePacked<8>));
}

TEST_P(QuantizedLogitsTest, PackedInt4LogitsEqualThoseOfTheirWeightsDequantisedByHand) {
  const TemporaryFolder folder;
  WritePackedStories(folder.path(), 4);
  ExpectSameLogits(folder.path(), *Twin(folder.path(), DequantizePacked<4>));
}

TEST_P(QuantizedLogitsTest, GgufQ4LogitsEqualThoseOfItsWeightsDequantisedByHand) {
  ExpectSameLogits(StoriesGguf(), *GgufTwin(StoriesGguf(), 192));
}

// The same model in two quantisations: what neither changed is there once, and nothing else is shared.
TEST_F(QuantizedTest, TwoQuantisationsOfOneModelShareWhatIsEqualAndNothingElse) {
  const TemporaryFolder gptq, awq;
  WriteGptqStories(gptq.path());
  WriteAwqStories(awq.path());
  const auto first = Load(gptq.path(), WeightFormat::kKeep);
  ASSERT_NE(first, nullptr);
  // Zero points that are all alike are one matrix's.
  const uint64_t of_itself = place_.bank->Totals().content_bytes_saved;
  const auto second = Load(awq.path(), WeightFormat::kKeep);
  ASSERT_NE(second, nullptr);
  const BankTotals totals = place_.bank->Totals();
  EXPECT_EQ(totals.hits * 2, totals.registrations) << "no recipe is the other's";
  // The embedding, which is the head as well, and eleven norms, in F16 and whole pages.
  constexpr uint64_t kPage = 4096;
  EXPECT_EQ(totals.content_bytes_saved - of_itself, 512 * 64 * 2 + 11 * kPage);
  EXPECT_EQ(Story(gptq.path(), WeightFormat::kKeep), Story(gptq.path(), WeightFormat::kF32));
}

// F16 is what `auto` makes of floats that a device has no function over.
TEST_F(QuantizedTest, ANumberThatF16CannotHoldIsNamedAndTheModelIsLoadedAsItIsStored) {
  const TestModel model;  // BF16
  const std::string path = model.file("model.safetensors");
  const char* const kName = "model.layers.1.mlp.up_proj.weight";
  std::string bytes = ReadWholeFile(path);
  const uint64_t row = StoredTensors(path).Dim(kName, 1);
  const uint16_t large = 0x47C0;  // 98304
  std::memcpy(bytes.data() + StoredTensors(path).Entry(kName).offset + (row + 2) * 2, &large, 2);
  WriteWholeFile(path, bytes);
  ModelRunOptions options;
  options.model = model.model();
  options.weights = WeightFormat::kF16;
  const absl::Status status = ModelRun::Load(options, place_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(std::string("tensor '") + kName + "', BF16[96,64], has 98304 at [1,2]"),
            absl::string_view::npos)
      << status;
  EXPECT_NE(Load(model.model(), WeightFormat::kAuto), nullptr);
  EXPECT_NE(Load(model.model(), WeightFormat::kBF16), nullptr);
}

// "Once upon a time, there was a": what no loss of four bits changes.
void ExpectAStory(const std::string& model, const std::vector<std::string>& prompt) {
  std::vector<std::string> arguments = {
      NPUBANK_BIN "/bank-run", "--device", "software", "--model", model, "--tokens", "20"};
  arguments.insert(arguments.end(), prompt.begin(), prompt.end());
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_status, 0) << model << ": " << result.error;
  EXPECT_EQ(result.out.rfind("Once upon a time, there was a", 0), 0u) << model << result.out;
}

TEST_F(QuantizedTest, EveryQuantisedModelTellsAStoryThroughBankRun) {
  ExpectAStory(StoriesGguf(), {"--prompt", "Once upon a time"});
  const std::function<void(const std::string&)> layouts[] = {
      [](const std::string& folder) { WriteGptqStories(folder); },
      [](const std::string& folder) { WriteGptqStories(folder, {.act_order = true}); },
      [](const std::string& folder) { WriteGptqStories(folder, {.bits = 8}); }, WriteAwqStories, WriteInt8Stories};
  for (const auto& write : layouts) {
    const TemporaryFolder folder;
    write(folder.path());
    folder.Write("tokens.json", ReadWholeFile(StoriesFolder() + "/tokens.json"));
    ExpectAStory(folder.path(), {"--prompt", "Once upon a time"});
  }
}

// The same model as other programs write it: beside the checkout, where somebody has put it.
class OtherProgramsTest : public QuantizedTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    QuantizedTest::SetUp();
    if (model_.empty()) GTEST_SKIP() << "not beside the checkout: " << GetParam();
  }
  std::unique_ptr<F32Checkpoint> HandMadeTwin() const {
    if (model_.ends_with("q8_0.gguf")) return GgufTwin(model_, 192);
    if (model_.ends_with(".gguf")) return GgufTwin(model_, 172);
    return Twin(model_, model_.find("gptq") != std::string::npos ? DequantizeGptq<> : DequantizeAwq);
  }
  const std::string model_ = SharedStories(GetParam());
};

TEST_P(OtherProgramsTest, LogitsEqualThoseOfTheWeightsDequantisedByHand) {
  ExpectSameLogits(model_, *HandMadeTwin());
}

TEST_P(OtherProgramsTest, TellsAStoryThroughBankRun) {
  ExpectAStory(model_, {"--prompt", "Once upon a time"});
}

INSTANTIATE_TEST_SUITE_P(Layouts, OtherProgramsTest,
                         ::testing::Values("hf-gptq-g32", "hf-awq-g32", "gguf/stories260K-f32.gguf",
                                           "gguf/stories260K-pad192-q8_0.gguf"));

}  // namespace
}  // namespace npubank

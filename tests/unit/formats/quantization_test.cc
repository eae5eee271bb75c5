#include "npubank/lazy_tensor/formats/quantization.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/weights/constants_index.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<std::optional<Quantization>> Parse(const std::string& settings) {
  return ParseQuantization(absl::StrCat("{\"quantization_config\":", settings, "}"), "config.json");
}

void ExpectRefused(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << ", not " << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(QuantizationTest, AConfigWithoutOneIsNotQuantised) {
  EXPECT_FALSE(ParseQuantization("{}", "config.json")->has_value());
  EXPECT_FALSE(Parse("null")->has_value());
}

TEST(QuantizationTest, GptqAndAwqAreUnderstood) {
  const auto gptq = Parse(R"({"quant_method":"gptq","bits":4,"group_size":128})");
  ASSERT_TRUE(gptq.ok()) << gptq.status();
  EXPECT_EQ((*gptq)->method, Quantization::Method::kGptq);
  EXPECT_EQ((*gptq)->group_size, 128);
  EXPECT_TRUE((*gptq)->zeros_one_too_small);
  const auto second = Parse(
      R"({"quant_method":"gptq","bits":4,"group_size":-1,"checkpoint_format":"gptq_v2","dynamic":{}})");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->group_size, Quantization::kWholeColumn);
  EXPECT_FALSE((*second)->zeros_one_too_small);
  const auto awq = Parse(
      R"({"quant_method":"awq","bits":4,"group_size":32,"zero_point":true,"version":"GEMM"})");
  ASSERT_TRUE(awq.ok()) << awq.status();
  EXPECT_EQ((*awq)->method, Quantization::Method::kAwq);
}

TEST(QuantizationTest, WhatIsNotUnderstoodIsNamed) {
  auto refused = [](const std::string& settings, const std::string& why) {
    ExpectRefused(Parse(settings).status(), "config.json");
    ExpectRefused(Parse(settings).status(), why);
  };
  refused("5", "must be an object");
  refused("{}", "quant_method");
  refused(R"({"quant_method":"fp8","bits":8})", "'fp8'; supported are");
  refused(R"({"quant_method":"gptq","bits":8,"group_size":32})", "'bits' must be 4");
  refused(R"({"quant_method":"gptq","bits":4})", "'group_size' is missing");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":0})", "group_size");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":-2})", "group_size");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"marlin"})",
          "marlin");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"x":{}}})", "dynamic");
  refused(R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemv"})", "gemv");
  refused(R"({"quant_method":"awq","bits":4,"group_size":32,"zero_point":false})", "zero_point");
}

// A layer of `inputs` x `outputs` in plain numbers, and packed as a method packs it.
struct Layer {
  int inputs = 0;
  int outputs = 0;
  int group = 0;
  std::vector<int> weights;   // [inputs][outputs]
  std::vector<int> zeros;     // [groups][outputs]
  std::vector<float> scales;  // [groups][outputs], exact in F32

  float Weight(int output, int input) const {
    const int at = input / group * outputs + output;
    return static_cast<float>(weights[input * outputs + output] - zeros[at]) * scales[at];
  }
};

Layer RandomLayer(int inputs, int outputs, int group, unsigned seed, int smallest_zero) {
  std::mt19937 random(seed);
  Layer layer{inputs, outputs, group, {}, {}, {}};
  for (int i = 0; i < inputs * outputs; ++i) layer.weights.push_back(random() % 16);
  for (int i = 0; i < inputs / group * outputs; ++i) {
    layer.zeros.push_back(smallest_zero + random() % (16 - smallest_zero));
    layer.scales.push_back(std::ldexp(static_cast<float>(1 + random() % 100), -8));
  }
  return layer;
}

RecipePtr Tensor(const std::vector<uint32_t>& words, ElementType element, std::vector<int64_t> dims,
                 const std::string& name) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(word >> (8 * i));
  }
  const auto type = TensorType::Create(element, *Shape::Create(dims));
  const auto constant = Recipe::Constant(SourceOf(bytes, name), 0, *type, name);
  EXPECT_TRUE(constant.ok()) << constant.status();
  return *constant;
}

// Eight columns to a word; nibble i is column order[i].
std::vector<uint32_t> PackColumns(const std::vector<int>& numbers, const int (&order)[8], int add) {
  std::vector<uint32_t> words;
  for (size_t first = 0; first < numbers.size(); first += 8) {
    uint32_t word = 0;
    for (int i = 0; i < 8; ++i) word |= ((numbers[first + order[i]] + add) & 15u) << (4 * i);
    words.push_back(word);
  }
  return words;
}
constexpr int kInOrder[8] = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr int kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

using Stored = std::map<std::string, RecipePtr>;

Stored PackCommon(const Layer& layer) {
  std::vector<uint32_t> scales;
  for (const float scale : layer.scales) scales.push_back(std::bit_cast<uint32_t>(scale));
  return {{"x.scales", Tensor(scales, ElementType::kF32,
                              {layer.inputs / layer.group, layer.outputs}, "x.scales")}};
}

Stored PackGptq(const Layer& layer, bool zeros_one_too_small) {
  Stored stored = PackCommon(layer);
  std::vector<uint32_t> words(layer.inputs / 8 * layer.outputs);
  std::vector<uint32_t> g_idx;
  for (int k = 0; k < layer.inputs; ++k) {
    g_idx.push_back(k / layer.group);
    for (int n = 0; n < layer.outputs; ++n) {
      words[k / 8 * layer.outputs + n] |=
          static_cast<uint32_t>(layer.weights[k * layer.outputs + n]) << (4 * (k % 8));
    }
  }
  stored["x.qweight"] =
      Tensor(words, ElementType::kI32, {layer.inputs / 8, layer.outputs}, "x.qweight");
  stored["x.qzeros"] =
      Tensor(PackColumns(layer.zeros, kInOrder, zeros_one_too_small ? -1 : 0), ElementType::kI32,
             {layer.inputs / layer.group, layer.outputs / 8}, "x.qzeros");
  stored["x.g_idx"] = Tensor(g_idx, ElementType::kI32, {layer.inputs}, "x.g_idx");
  return stored;
}

Stored PackAwq(const Layer& layer) {
  Stored stored = PackCommon(layer);
  stored["x.qweight"] = Tensor(PackColumns(layer.weights, kAwqOrder, 0), ElementType::kI32,
                               {layer.inputs, layer.outputs / 8}, "x.qweight");
  stored["x.qzeros"] = Tensor(PackColumns(layer.zeros, kAwqOrder, 0), ElementType::kI32,
                              {layer.inputs / layer.group, layer.outputs / 8}, "x.qzeros");
  return stored;
}

absl::StatusOr<LazyTensor> WeightOf(const Quantization& quantization, const Stored& stored) {
  std::vector<RecipePtr> constants;
  for (const auto& [name, constant] : stored) constants.push_back(constant);
  NPUBANK_ASSIGN_OR_RETURN(const StoredWeight weight,
                           QuantizedWeight(quantization, "x", *ConstantsIndex(constants)));
  return Dequantized(weight);
}

std::vector<float> Floats(const LazyTensor& tensor) {
  EXPECT_EQ(tensor.type().element(), ElementType::kF32);
  std::vector<float> values(tensor.type().num_elements());
  const absl::Status status = tensor.EvaluateInto(
      absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), 4 * values.size()));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

void ExpectLayer(const absl::StatusOr<LazyTensor>& weight, const Layer& layer) {
  ASSERT_TRUE(weight.ok()) << weight.status();
  ASSERT_EQ(weight->type().ToString(), absl::StrCat("F32[", layer.outputs, ",", layer.inputs, "]"));
  const std::vector<float> values = Floats(*weight);
  for (int n = 0; n < layer.outputs; ++n) {
    for (int k = 0; k < layer.inputs; ++k) {
      ASSERT_EQ(values[n * layer.inputs + k], layer.Weight(n, k))
          << "output " << n << " input " << k;
    }
  }
}

TEST(QuantizationTest, GptqWeightsAreWhatTheirNumbersMean) {
  const auto seed = static_cast<unsigned>(PrintedSeed());
  using Q = Quantization;
  // Version 1 stores zero - 1, so that its zero points start at 1.
  const Layer first = RandomLayer(64, 24, 16, seed, 1);
  ExpectLayer(WeightOf({Q::Method::kGptq, 16, true}, PackGptq(first, true)), first);
  const Layer second = RandomLayer(64, 24, 16, seed + 1, 0);
  ExpectLayer(WeightOf({Q::Method::kGptq, 16, false}, PackGptq(second, false)), second);
  const Layer whole = RandomLayer(40, 8, 40, seed + 2, 1);
  ExpectLayer(WeightOf({Q::Method::kGptq, Q::kWholeColumn, true}, PackGptq(whole, true)), whole);
}

// Stored as [in, out], meant as [out, in], wanted as [in, out]: nothing is transposed.
TEST(QuantizationTest, AGptqWeightThatIsWantedTransposedIsNotTransposedAtAll) {
  const Layer layer = RandomLayer(64, 24, 16, 1, 1);
  const auto weight = WeightOf({Quantization::Method::kGptq, 16, true}, PackGptq(layer, true));
  ASSERT_TRUE(weight.ok()) << weight.status();
  const auto transposed = weight->Permute({1, 0});
  ASSERT_TRUE(transposed.ok()) << transposed.status();
  EXPECT_THAT(weight->recipe()->Describe(), HasSubstr("permute"));
  EXPECT_THAT(transposed->recipe()->Describe(), Not(HasSubstr("permute")));
  EXPECT_EQ(transposed->recipe()->depth(), weight->recipe()->depth() - 1);
  const std::vector<float> values = Floats(*transposed);
  for (int k = 0; k < layer.inputs; ++k)
    for (int n = 0; n < layer.outputs; ++n)
      ASSERT_EQ(values[k * layer.outputs + n], layer.Weight(n, k)) << "output " << n << " input " << k;
}

TEST(QuantizationTest, AwqWeightsAreWhatTheirNumbersMean) {
  const auto seed = static_cast<unsigned>(PrintedSeed());
  const Layer layer = RandomLayer(64, 24, 32, seed, 0);
  ExpectLayer(WeightOf({Quantization::Method::kAwq, 32, false}, PackAwq(layer)), layer);
}

TEST(QuantizationTest, GroupsInAnotherOrderAreRefused) {
  const Layer layer = RandomLayer(32, 8, 8, 1, 1);
  const Quantization gptq = {Quantization::Method::kGptq, 8, true};
  std::vector<uint32_t> order;
  for (int k = 0; k < 32; ++k) order.push_back(k / 8);
  std::swap(order[0], order[31]);
  Stored stored = PackGptq(layer, true);
  stored["x.g_idx"] = Tensor(order, ElementType::kI32, {32}, "x.g_idx");
  ExpectRefused(WeightOf(gptq, stored).status(), "'x.g_idx': puts input 0 into group 3");
  order.assign(32, 0xFFFFFFFF);
  stored["x.g_idx"] = Tensor(order, ElementType::kI32, {32}, "x.g_idx");
  ExpectRefused(WeightOf(gptq, stored).status(), "desc_act");
  stored["x.g_idx"] = Tensor({0, 0, 0}, ElementType::kI32, {3}, "x.g_idx");
  ExpectRefused(WeightOf(gptq, stored).status(), "I32[3] instead of I32[32]");
}

TEST(QuantizationTest, PartsThatDoNotFitAreNamed) {
  const Layer layer = RandomLayer(32, 8, 8, 1, 1);
  const Quantization gptq = {Quantization::Method::kGptq, 8, true};
  const Stored whole = PackGptq(layer, true);
  for (const char* name : {"x.qweight", "x.qzeros", "x.scales", "x.g_idx"}) {
    Stored without = whole;
    without.erase(name);
    const auto missing = WeightOf(gptq, without);
    EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(missing.status().message()), HasSubstr(name));
    Stored forged = whole;
    forged[name] = Tensor({1, 2, 3}, ElementType::kI32, {3, 1}, name);
    ExpectRefused(WeightOf(gptq, forged).status(), "tensor 'x.");
    forged[name] = Tensor({1, 2, 3, 4}, ElementType::kF32, {4}, name);
    ExpectRefused(WeightOf(gptq, forged).status(), name);
  }
  ExpectRefused(WeightOf({Quantization::Method::kGptq, 7, true}, whole).status(),
                "not whole groups of 7");
}

// Four bits lose a little, and the layouts of both checkpoints are right when they lose only that.
TEST(QuantizedCheckpointTest, TheStoriesModelsWeightsAreCloseToTheOriginals) {
  const auto original = Checkpoint::Open(StoriesFolder());
  ASSERT_TRUE(original.ok()) << original.status();
  const TemporaryFolder gptq, awq, int8, packed;
  WriteInt8Stories(int8.path());
  WritePackedStories(packed.path(), 4);
  WriteGptqStories(gptq.path());
  WriteAwqStories(awq.path());
  std::vector<std::string> variants = {StoriesGguf(), gptq.path(), awq.path(), int8.path(),
                                       packed.path()};
  for (const char* layout : {"hf-gptq-g32", "hf-awq-g32", "gguf/stories260K-pad192-q8_0.gguf"})
    if (const std::string path = SharedStories(layout); !path.empty()) variants.push_back(path);
  for (const std::string& variant : variants) {
    SCOPED_TRACE(variant);
    const auto quantised = Checkpoint::Open(variant);
    ASSERT_TRUE(quantised.ok()) << quantised.status();
    for (const char* name :
         {"model.layers.0.self_attn.v_proj.weight", "model.layers.2.self_attn.o_proj.weight",
          "model.layers.4.mlp.up_proj.weight"}) {
      EXPECT_TRUE((*quantised)->Contains(name));
      const auto exact = (*original)->Tensor(name);
      const auto close = (*quantised)->Tensor(name);
      ASSERT_TRUE(exact.ok() && close.ok()) << name << ": " << close.status();
      EXPECT_EQ(exact->type().shape().dim(1), close->type().shape().dim(1));
      const std::vector<float> a = Floats(*exact);
      const std::vector<float> b = Floats(*close);  // padded rows, if any, come after
      ASSERT_LE(a.size(), b.size());
      double error = 0, power = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        power += a[i] * a[i];
      }
      EXPECT_LT(std::sqrt(error / power), 0.15) << name;
    }
  }
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TensorType TypeOf(ElementType element, std::vector<int64_t> dims) {
  return TensorType::Create(element, Shape::Create(dims).value()).value();
}

TEST(StoredWeightTest, RowsAreRowsOfEveryPart) {
  const auto splat = [](ElementType element, std::vector<int64_t> dims) {
    return LazyTensor::Splat(TypeOf(element, std::move(dims)), 0).value();
  };
  const StoredWeight gptq = {
      WeightForm::Gptq(true),
      {splat(ElementType::kI32, {2, 24}), splat(ElementType::kF16, {1, 24}), splat(ElementType::kI32, {1, 3})}};
  const auto rows = Rows(gptq, 8, 16);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->parts[0].type().ToString(), "I32[2,16]");
  EXPECT_EQ(rows->parts[1].type().ToString(), "F16[1,16]");
  EXPECT_EQ(rows->parts[2].type().ToString(), "I32[1,2]");
  for (const auto& [first, count] : {std::pair{4, 8}, {8, 12}}) {
    EXPECT_THAT(std::string(Rows(gptq, first, count).status().message()), HasSubstr("no whole words of 8"));
  }
  const StoredWeight blocks = {WeightForm::Blocks(kernels::BlockFormat::kQ4_0), {splat(ElementType::kU8, {24, 36})}};
  EXPECT_EQ(Rows(blocks, 5, 3)->parts[0].type().ToString(), "U8[3,36]");
  EXPECT_FALSE(Rows(blocks, 20, 5).ok());
}

}  // namespace
}  // namespace npubank

#include "npubank/lazy_tensor/formats/quantization.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
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
  const auto bytes = Parse(R"({"quant_method":"gptq","bits":8,"group_size":128,"desc_act":true})");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ((*bytes)->bits, 8);
  const auto newer = Parse(R"({"quant_method":"gptq","bits":4,"group_size":128,"format":"gptq_v2"})");
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_FALSE((*newer)->zeros_one_too_small);
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
  refused(R"({"quant_method":"gptq","bits":3,"group_size":32})", "'bits' is 3; supported are 4, and 8 of GPTQ");
  refused(R"({"quant_method":"awq","bits":8,"group_size":32})", "'bits' is 8; supported are 4, and 8 of GPTQ");
  refused(R"({"quant_method":"gptq","bits":4})", "'group_size' is missing");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":0})", "group_size");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":-2})", "group_size");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"marlin"})",
          "marlin");
  refused(R"({"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"x":{}}})", "dynamic");
  refused(R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemv"})", "gemv");
  refused(R"({"quant_method":"awq","bits":4,"group_size":32,"zero_point":false})", "zero_point");
}

// Every key that AutoGPTQ, optimum and GPTQModel write of a layout like this one.
nlohmann::json PublishedGptqKeys() {
  return nlohmann::json::parse(R"({
    "quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true, "sym": true, "lm_head": false,
    "checkpoint_format": "gptq", "format": "gptq", "method": "gptq", "pack_dtype": "int32", "dynamic": {"-:.*gate.*": {}},
    "static_groups": false, "true_sequential": true, "damp_percent": 0.1, "damp_auto_increment": 0.0025,
    "act_group_aware": true, "hyb_act": false, "is_marlin_format": false, "model_name_or_path": "x",
    "model_file_base_name": "gptq_model-4bit-128g", "meta": {"quantizer": ["gptqmodel:1.4.0"], "mse": 0.0},
    "tokenizer": null, "dataset": "c4", "use_cuda_fp16": false, "model_seqlen": 2048, "block_name_to_quantize": null,
    "module_name_preceding_first_block": null, "batch_size": 1, "pad_token_id": null, "use_exllama": true,
    "disable_exllama": false, "max_input_length": null, "exllama_config": {"version": 1}, "cache_block_outputs": true,
    "modules_in_block_to_quantize": null, "backend": "auto", "quantizer": "optimum:1.17.1"})");
}

TEST(QuantizationTest, EachPublishedGptqKeyIsUsedOrHarmlessOrMissedOrRefusedByName) {
  const nlohmann::json published = PublishedGptqKeys();
  const auto whole = Parse(published.dump());
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const auto& [key, value] : published.items()) {
    nlohmann::json without = published;
    without.erase(key);
    const auto parsed = Parse(without.dump());
    // The others have defaults, or change nothing that is computed.
    if (key == "quant_method" || key == "bits" || key == "group_size") {
      ExpectRefused(parsed.status(), key);
    } else {
      EXPECT_TRUE(parsed.ok()) << key << ": " << parsed.status();
    }
    nlohmann::json renamed = without;
    renamed[key + "_2"] = value.is_null() ? nlohmann::json(1) : value;
    ExpectRefused(Parse(renamed.dump()).status(), key);
  }
  nlohmann::json more = published;
  more["rotation"] = "hadamard";
  ExpectRefused(Parse(more.dump()).status(), "rotation");
  // What makes it another layout.
  const nlohmann::json others = {{"checkpoint_format", "marlin"},
                                 {"format", "gptq_v2"},
                                 {"method", "gptq_p"},
                                 {"pack_dtype", "int8"},
                                 {"is_marlin_format", true},
                                 {"bits", 2},
                                 {"dynamic", {{"+:.*down.*", {{"bits", 8}}}}}};
  for (const auto& [key, value] : others.items()) {
    nlohmann::json other = published;
    other[key] = value;
    ExpectRefused(Parse(other.dump()).status(), "'" + key + "'");
  }
}

// A layer of `inputs` x `outputs` in plain numbers, and packed as a method packs it.
struct Layer {
  int inputs = 0;
  int outputs = 0;
  int group = 0;
  std::vector<int> weights;   // [inputs][outputs]
  std::vector<int> zeros;     // [groups][outputs]
  std::vector<float> scales;  // [groups][outputs], exact in F32
  int bits = 4;
  std::vector<int> group_of = {};  // of each input

  float Weight(int output, int input) const {
    const int at = group_of[input] * outputs + output;
    return static_cast<float>(weights[input * outputs + output] - zeros[at]) * scales[at];
  }
};

Layer RandomLayer(int inputs, int outputs, int group, unsigned seed, int smallest_zero, int bits = 4) {
  std::mt19937 random(seed);
  const int levels = 1 << bits;
  Layer layer{inputs, outputs, group, {}, {}, {}, bits};
  for (int i = 0; i < inputs * outputs; ++i) layer.weights.push_back(random() % levels);
  for (int i = 0; i < inputs / group * outputs; ++i) {
    layer.zeros.push_back(smallest_zero + random() % (levels - smallest_zero));
    layer.scales.push_back(std::ldexp(static_cast<float>(1 + random() % 100), -8));
  }
  for (int k = 0; k < inputs; ++k) layer.group_of.push_back(k / group);
  return layer;
}

// As quantising in the order of activations leaves it.
Layer Shuffled(Layer layer, unsigned seed) {
  std::shuffle(layer.group_of.begin(), layer.group_of.end(), std::mt19937(seed));
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

// As many columns to a word as have room; number i is column order[i].
std::vector<uint32_t> PackColumns(const std::vector<int>& numbers, const int (&order)[8], int add, int bits = 4) {
  const size_t in_word = 32 / bits;
  std::vector<uint32_t> words;
  for (size_t first = 0; first < numbers.size(); first += in_word) {
    uint32_t word = 0;
    for (size_t i = 0; i < in_word; ++i) {
      word |= ((numbers[first + order[i]] + add) & ((1u << bits) - 1)) << (bits * i);
    }
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
  const int in_word = 32 / layer.bits;
  std::vector<uint32_t> words(layer.inputs / in_word * layer.outputs);
  for (int k = 0; k < layer.inputs; ++k) {
    for (int n = 0; n < layer.outputs; ++n) {
      words[k / in_word * layer.outputs + n] |= static_cast<uint32_t>(layer.weights[k * layer.outputs + n])
                                                << (layer.bits * (k % in_word));
    }
  }
  stored["x.qweight"] =
      Tensor(words, ElementType::kI32, {layer.inputs / in_word, layer.outputs}, "x.qweight");
  stored["x.qzeros"] =
      Tensor(PackColumns(layer.zeros, kInOrder, zeros_one_too_small ? -1 : 0, layer.bits), ElementType::kI32,
             {layer.inputs / layer.group, layer.outputs / in_word}, "x.qzeros");
  stored["x.g_idx"] = Tensor({layer.group_of.begin(), layer.group_of.end()}, ElementType::kI32, {layer.inputs},
                             "x.g_idx");
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

TEST(QuantizationTest, GptqOfEightBitsAsWell) {
  const auto seed = static_cast<unsigned>(PrintedSeed());
  using Q = Quantization;
  const Layer first = RandomLayer(64, 24, 16, seed, 1, 8);
  ExpectLayer(WeightOf({Q::Method::kGptq, 16, true, 8}, PackGptq(first, true)), first);
  // A zero point of version 1 counts modulo 256.
  Layer wrapped = RandomLayer(64, 24, 16, seed + 1, 0, 8);
  wrapped.zeros.assign(wrapped.zeros.size(), 0);
  ExpectLayer(WeightOf({Q::Method::kGptq, 16, true, 8}, PackGptq(wrapped, true)), wrapped);
  const Layer second = RandomLayer(60, 12, 12, seed + 2, 0, 8);
  ExpectLayer(WeightOf({Q::Method::kGptq, 12, false, 8}, PackGptq(second, false)), second);
}

// The groups of activation order: any inputs, as many in each.
TEST(QuantizationTest, GptqGroupsAreThoseThatGIdxSays) {
  const auto seed = static_cast<unsigned>(PrintedSeed());
  using Q = Quantization;
  for (const int bits : {4, 8}) {
    for (const bool one_too_small : {true, false}) {
      const Layer layer = Shuffled(RandomLayer(64, 24, 16, seed, one_too_small ? 1 : 0, bits), seed + 1);
      const Stored stored = PackGptq(layer, one_too_small);
      ExpectLayer(WeightOf({Q::Method::kGptq, 16, one_too_small, bits}, stored), layer);
    }
  }
}

// static_groups, and desc_act over whole columns, leave groups as they would be without.
TEST(QuantizationTest, OnlyGroupsInAnotherOrderAreAPartOfTheWeight) {
  const Quantization gptq = {Quantization::Method::kGptq, 8, true};
  const auto parts_of = [&](const Stored& stored, const Quantization& quantization) {
    std::vector<RecipePtr> constants;
    for (const auto& [name, constant] : stored) constants.push_back(constant);
    const auto weight = QuantizedWeight(quantization, "x", *ConstantsIndex(constants));
    EXPECT_TRUE(weight.ok()) << weight.status();
    return weight.ok() ? weight->parts.size() : 0;
  };
  const Layer layer = RandomLayer(32, 8, 8, 1, 1);
  EXPECT_EQ(parts_of(PackGptq(layer, true), gptq), 3u);
  EXPECT_EQ(parts_of(PackGptq(Shuffled(layer, 1), true), gptq), 4u);
  const Layer whole = RandomLayer(32, 8, 32, 1, 1);
  EXPECT_EQ(parts_of(PackGptq(Shuffled(whole, 1), true), {Quantization::Method::kGptq, -1, true}), 3u);
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

TEST(QuantizationTest, GroupsThatAreNotThereOrNotOfOneSizeAreRefused) {
  const Layer layer = RandomLayer(32, 8, 8, 1, 1);
  const Quantization gptq = {Quantization::Method::kGptq, 8, true};
  const auto refused = [&](const std::vector<uint32_t>& groups, const std::string& why) {
    Stored stored = PackGptq(layer, true);
    stored["x.g_idx"] =
        Tensor(groups, ElementType::kI32, {static_cast<int64_t>(groups.size())}, "x.g_idx");
    ExpectRefused(WeightOf(gptq, stored).status(), "tensor 'x.g_idx': " + why);
  };
  std::vector<uint32_t> order(layer.group_of.begin(), layer.group_of.end());
  const auto with = [&](int input, uint32_t group) {
    std::vector<uint32_t> forged = order;
    forged[input] = group;
    return forged;
  };
  refused(with(5, 4), "puts input 5 into group 4 of 4");
  refused(with(31, 0xFFFFFFFF), "puts input 31 into group -1 of 4");
  refused(with(0, 0x80000000), "puts input 0 into group -2147483648 of 4");
  refused(with(31, 0), "puts more than 8 inputs into group 0: input 31");
  refused({0, 0, 0}, "is I32[3] instead of I32[32]");
  order.resize(40, 3);
  refused(order, "is I32[40] instead of I32[32]");
  Stored stored = PackGptq(layer, true);
  stored["x.g_idx"] = Tensor(std::vector<uint32_t>(32), ElementType::kF32, {32}, "x.g_idx");
  ExpectRefused(WeightOf(gptq, stored).status(), "'x.g_idx': is F32[32] instead of I32[32]");
  stored["x.g_idx"] = Tensor(std::vector<uint32_t>(32), ElementType::kI32, {32, 1}, "x.g_idx");
  ExpectRefused(WeightOf(gptq, stored).status(), "'x.g_idx': is I32[32,1] instead of I32[32]");
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
  const TemporaryFolder gptq, ordered, bytes, awq, int8, packed;
  WriteGptqStories(ordered.path(), {.act_order = true});
  WriteGptqStories(bytes.path(), {.bits = 8});
  WriteInt8Stories(int8.path());
  WritePackedStories(packed.path(), 4);
  WriteGptqStories(gptq.path());
  WriteAwqStories(awq.path());
  std::vector<std::string> variants = {StoriesGguf(), gptq.path(), ordered.path(), bytes.path(), awq.path(),
                                       int8.path(),   packed.path()};
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
  // Every row has the same inputs, and so their groups.
  StoredWeight listed = {WeightForm::Gptq(true, 4, /*groups_listed=*/true), gptq.parts};
  listed.parts.push_back(splat(ElementType::kI32, {16}));
  EXPECT_EQ(Rows(listed, 8, 16)->parts[3].type().ToString(), "I32[16]");
  for (const auto& [first, count] : {std::pair{4, 8}, {8, 12}}) {
    EXPECT_THAT(std::string(Rows(gptq, first, count).status().message()), HasSubstr("no whole words of 8"));
  }
  const StoredWeight blocks = {WeightForm::Blocks(kernels::BlockFormat::kQ4_0), {splat(ElementType::kU8, {24, 36})}};
  EXPECT_EQ(Rows(blocks, 5, 3)->parts[0].type().ToString(), "U8[3,36]");
  EXPECT_FALSE(Rows(blocks, 20, 5).ok());
}

}  // namespace
}  // namespace npubank

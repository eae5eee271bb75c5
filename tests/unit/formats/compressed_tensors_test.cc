#include "npubank/lazy_tensor/formats/compressed_tensors.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/tests/support/weights/constants_index.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using Method = Quantization::Method;

// What llm-compressor writes, but for keys of no meaning.
Json Settings() {
  return Json::parse(R"({
      "quant_method": "compressed-tensors", "format": "pack-quantized", "kv_cache_scheme": null,
      "quantization_status": "compressed", "global_compression_ratio": 1.27, "ignore": ["lm_head"],
      "config_groups": {"group_0": {
        "input_activations": null, "output_activations": null, "targets": ["Linear"],
        "weights": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": null,
                    "num_bits": 8, "observer": "minmax", "observer_kwargs": {}, "strategy": "channel",
                    "symmetric": true, "type": "int"}}}})");
}
Json& Weights(Json& settings) { return settings["config_groups"]["group_0"]["weights"]; }

absl::StatusOr<std::optional<Quantization>> Parse(const Json& settings) {
  return ParseQuantization(Json{{"quantization_config", settings}}.dump(), "config.json");
}

void ExpectRefused(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << ", not " << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(CompressedTensorsTest, WeightsAloneInIntegersAreUnderstood) {
  Json settings = Settings();
  const auto channel = Parse(settings);
  ASSERT_TRUE(channel.ok()) << channel.status();
  EXPECT_EQ((*channel)->method, Method::kPackedRows);
  EXPECT_EQ((*channel)->bits, 8);
  EXPECT_EQ((*channel)->group_size, Quantization::kWholeColumn);
  Weights(settings).update({{"num_bits", 4}, {"strategy", "group"}, {"group_size", 128}, {"actorder", "weight"}});
  settings["sparsity_config"] = Json::object();
  const auto group = Parse(settings);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ((*group)->bits, 4);
  EXPECT_EQ((*group)->group_size, 128);
  settings = Settings();
  settings["format"] = "int-quantized";
  const auto bytes = Parse(settings);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ((*bytes)->method, Method::kInt8);
}

TEST(CompressedTensorsTest, WhatIsNotSupportedIsNamed) {
  struct Case {
    const char* at;  // a JSON pointer
    Json value;
    const char* why;
  };
  const std::string weights = "/config_groups/group_0/weights";
  const std::vector<Case> cases = {
      {"/format", "float-quantized", "'float-quantized'; supported are"},
      {"/format", nullptr, "format"},
      {"/kv_cache_scheme", {{"num_bits", 8}}, "cache"},
      {"/sparsity_config", {{"format", "sparse-24-bitmask"}}, "sparse"},
      {"/transform_config", {{"x", 1}}, "transforms"},
      {"/config_groups", Json::object(), "one group"},
      {"/config_groups", 5, "one group"},
      {"/config_groups/group_0", 5, "one group"},
      {"/config_groups/group_1", Json::object(), "one group"},
      {"/config_groups/group_0/input_activations", {{"num_bits", 8}}, "activations"},
      {"/config_groups/group_0/output_activations", {{"num_bits", 8}}, "activations"},
      {"/config_groups/group_0/format", "int-quantized", "another than"},
      {"/config_groups/group_0/weights", nullptr, "'weights' must be an object"},
      {"/config_groups/group_0/weights", "int8", "'weights' must be an object"},
      {"/config_groups/group_0/weights/num_bits", 3, "must be 4 or 8"},
      {"/config_groups/group_0/weights/num_bits", nullptr, "num_bits"},
      {"/config_groups/group_0/weights/type", "float", "supported is 'int'"},
      {"/config_groups/group_0/weights/symmetric", false, "zero points"},
      {"/config_groups/group_0/weights/strategy", "tensor", "'tensor'; supported are"},
      {"/config_groups/group_0/weights/strategy", "group", "group_size"},
      {"/config_groups/group_0/weights/dynamic", true, "scales must be stored"},
      {"/config_groups/group_0/weights/actorder", "group", "order of the inputs"},
      {"/config_groups/group_0/weights/block_structure", "2x4", "blocks"},
      {"/config_groups/group_0/weights/lut", 1, "'lut' is not known"},
      {"/config_groups/group_0/smooth", 1, "'smooth' is not known"},
      {"/bits", 8, "'bits' is not known"}};
  for (const Case& c : cases) {
    Json settings = Settings();
    settings[Json::json_pointer(c.at)] = c.value;
    ExpectRefused(Parse(settings).status(), "config.json: quantization_config");
    ExpectRefused(Parse(settings).status(), c.why);
  }
  Json four = Settings();
  four["format"] = "int-quantized";
  Weights(four)["num_bits"] = 4;
  ExpectRefused(Parse(four).status(), "'num_bits' must be 8");
}

using Stored = std::map<std::string, RecipePtr>;

RecipePtr Tensor(const std::string& bytes, ElementType element, std::vector<int64_t> dims,
                 const std::string& name) {
  const auto constant =
      Recipe::Constant(SourceOf(bytes, name), 0, *TensorType::Create(element, *Shape::Create(dims)), name);
  EXPECT_TRUE(constant.ok()) << constant.status();
  return *constant;
}

std::string Shape2(int64_t a, int64_t b) {
  const int64_t dims[] = {a, b};
  return std::string(reinterpret_cast<const char*>(dims), sizeof(dims));
}

absl::StatusOr<std::vector<float>> ValuesOf(const Quantization& quantization, const Stored& stored,
                                            bool packed) {
  std::vector<RecipePtr> constants;
  for (const auto& [name, constant] : stored) constants.push_back(constant);
  auto weight = QuantizedWeight(quantization, "x", *ConstantsIndex(constants));
  if (weight.ok() && packed) weight = Packed(*weight);
  if (!weight.ok()) return weight.status();
  const auto numbers = Dequantized(*weight);
  if (!numbers.ok()) return numbers.status();
  std::vector<float> values(static_cast<size_t>(numbers->type().num_elements()));
  const absl::Status status = numbers->EvaluateInto(
      absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), 4 * values.size()));
  if (!status.ok()) return status;
  return values;
}

// 6 outputs of 24 inputs: any bytes, scales that F32 holds.
class CompressedWeightTest : public ::testing::Test {
 protected:
  static constexpr int kOut = 6;
  static constexpr int kIn = 24;

  std::string Bytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }
  RecipePtr Scales(int groups) {
    scales_.clear();
    for (int i = 0; i < kOut * groups; ++i) scales_.push_back(static_cast<float>(1 + random_() % 100) / 256);
    return Tensor(std::string(reinterpret_cast<const char*>(scales_.data()), 4 * scales_.size()),
                  ElementType::kF32, {kOut, groups}, "x.weight_scale");
  }
  // As the numbers' definition says it, from the bytes.
  float Expected(const std::string& bytes, int bits, bool is_signed, int at) const {
    const int byte = static_cast<uint8_t>(bytes[static_cast<size_t>(at * bits / 8)]);
    int q = bits == 8 ? byte : byte >> (at % 2 * 4) & 15;
    q = is_signed ? static_cast<int8_t>(q) : q - (1 << (bits - 1));
    const int groups = static_cast<int>(scales_.size()) / kOut;
    return static_cast<float>(q) * scales_[static_cast<size_t>(at / kIn * groups + at % kIn / (kIn / groups))];
  }
  void ExpectValues(const Quantization& quantization, const Stored& stored, const std::string& bytes) {
    for (const bool packed : {false, true}) {
      const auto values = ValuesOf(quantization, stored, packed);
      ASSERT_TRUE(values.ok()) << values.status();
      ASSERT_EQ(values->size(), static_cast<size_t>(kOut * kIn));
      for (int i = 0; i < kOut * kIn; ++i) {
        ASSERT_EQ((*values)[static_cast<size_t>(i)],
                  Expected(bytes, quantization.bits, quantization.method == Method::kInt8, i))
            << i << (packed ? " packed" : "");
      }
    }
  }

  const unsigned seed_ = std::random_device()();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, absl::StrCat("seed ", seed_)};
  std::mt19937 random_{seed_};
  std::vector<float> scales_;
};

TEST_F(CompressedWeightTest, BytesTimesTheirOutputsScale) {
  const std::string bytes = Bytes(kOut * kIn);
  const Stored stored = {{"x.weight", Tensor(bytes, ElementType::kI8, {kOut, kIn}, "x.weight")},
                         {"x.weight_scale", Scales(1)}};
  ExpectValues({Method::kInt8, Quantization::kWholeColumn, false, 8}, stored, bytes);
}

TEST_F(CompressedWeightTest, WordsTimesTheirGroupsScale) {
  for (const int bits : {4, 8}) {
    const std::string bytes = Bytes(static_cast<size_t>(kOut * kIn * bits / 8));
    const Stored stored = {
        {"x.weight_packed",
         Tensor(bytes, ElementType::kI32, {kOut, kIn * bits / 32}, "x.weight_packed")},
        {"x.weight_scale", Scales(3)},
        {"x.weight_shape", Tensor(Shape2(kOut, kIn), ElementType::kI64, {2}, "x.weight_shape")}};
    ExpectValues({Method::kPackedRows, 8, false, bits}, stored, bytes);
  }
}

TEST_F(CompressedWeightTest, PartsThatDoNotFitAreNamed) {
  const Quantization packed = {Method::kPackedRows, 8, false, 8};
  const std::string bytes = Bytes(kOut * kIn);
  const Stored whole = {
      {"x.weight_packed", Tensor(bytes, ElementType::kI32, {kOut, kIn / 4}, "x.weight_packed")},
      {"x.weight_scale", Scales(3)},
      {"x.weight_shape", Tensor(Shape2(kOut, kIn), ElementType::kI64, {2}, "x.weight_shape")}};
  const auto status = [&](const Quantization& quantization, const char* name, RecipePtr part) {
    Stored stored = whole;
    if (part == nullptr) stored.erase(name);
    if (part != nullptr) stored[name] = std::move(part);
    return ValuesOf(quantization, stored, false).status();
  };
  for (const auto& [name, part] : whole) {
    const absl::Status missing = status(packed, name.c_str(), nullptr);
    EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(missing.message()), HasSubstr(name));
    ExpectRefused(status(packed, name.c_str(), Tensor(bytes, ElementType::kF32, {3}, name)), name);
    ExpectRefused(status(packed, name.c_str(), Tensor(bytes, ElementType::kI32, {0, 3}, name)), name);
    ExpectRefused(status(packed, name.c_str(), Tensor(bytes, ElementType::kI8, {kOut, 2}, name)), name);
  }
  const auto shape = [&](int64_t a, int64_t b) {
    return status(packed, "x.weight_shape", Tensor(Shape2(a, b), ElementType::kI64, {2}, "x.weight_shape"));
  };
  ExpectRefused(shape(kOut, kIn - 1), "has 23 as dimension 1, but the words hold [6,24]");
  ExpectRefused(shape(kIn, kOut), "has 24 as dimension 0");
  ExpectRefused(shape(-1, kIn), "has -1 as dimension 0");
  ExpectRefused(shape(INT64_MIN, INT64_MAX), "dimension 0");
  Quantization other = packed;
  other.group_size = 7;
  ExpectRefused(status(other, "", nullptr), "not whole groups of 7");
  other.group_size = 12;
  ExpectRefused(status(other, "", nullptr), "has 3 scales for an output; 24 inputs are 2 groups of 12");
  other.group_size = Quantization::kWholeColumn;
  ExpectRefused(status(other, "", nullptr), "1 groups of 24");
  const Quantization int8 = {Method::kInt8, 8, false, 8};
  Stored unsigned_bytes = {{"x.weight", Tensor(bytes, ElementType::kU8, {kOut, kIn}, "x.weight")},
                           {"x.weight_scale", whole.at("x.weight_scale")}};
  ExpectRefused(ValuesOf(int8, unsigned_bytes, false).status(), "'x.weight' is U8[6,24]");
}

// A folder in which one tensor has another name.
absl::Status OpenWith(const std::string& from, const std::string& to) {
  const TemporaryFolder folder;
  WriteInt8Stories(folder.path());
  const std::string path = folder.path() + "/model.safetensors";
  std::string bytes = ReadWholeFile(path);
  EXPECT_EQ(from.size(), to.size()) << "offsets stay";
  const size_t at = bytes.find('"' + from + '"');
  EXPECT_NE(at, std::string::npos) << from;
  bytes.replace(at + 1, from.size(), to);
  WriteWholeFile(path, bytes);
  const auto model = Checkpoint::Open(folder.path());
  return model.status();
}

TEST(CompressedCheckpointTest, ANameIsThatOfTheNumbersWhereAScaleLiesBesideIt) {
  const TemporaryFolder folder;
  WriteInt8Stories(folder.path());
  const auto model = Checkpoint::Open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const char* const kUp = "model.layers.0.mlp.up_proj.weight";
  EXPECT_TRUE((*model)->Contains(kUp));
  const auto stored = (*model)->Stored(kUp);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->form, WeightForm::Planes(WeightForm::Offset::kNone));
  EXPECT_EQ(stored->parts.size(), 2u);
  const auto numbers = (*model)->Tensor(kUp);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->type().ToString(), "F32[192,64]");
}

TEST(CompressedCheckpointTest, HostileTensorsAreRefusedByName) {
  const std::string up = "model.layers.0.mlp.up_proj.";
  ExpectRefused(OpenWith(up + "weight_scale", up + "bias_or_what"), "bias_or_what");
  ExpectRefused(OpenWith(up + "weight_scale", up + "weight_g_idx"), "order");
  ExpectRefused(OpenWith(up + "weight_scale", up + "output_scale"), "output_scale");
  ExpectRefused(OpenWith("model.layers.4.mlp.up_proj.weight_scale", "model.layers.9.mlp.up_proj.weight_scale"),
                "is of layer 9");
  // Its numbers alone would be taken for the weight.
  ExpectRefused(OpenWith("model.layers.1.self_attn.o_proj.weight_scale",
                         "model.layers.1.self_attn.rotary_emb.inv_freq"),
                "o_proj.weight' is I8[64,64], but there is no");
}

TEST(CompressedCheckpointTest, ZeroPointsThatAreNotZeroAreRefused) {
  const TemporaryFolder folder;
  WriteInt8Stories(folder.path());
  const std::string path = folder.path() + "/model.safetensors";
  std::string bytes = ReadWholeFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const Json header = Json::parse(bytes.substr(8, length));
  const char* const kName = "model.layers.2.mlp.up_proj.weight_zero_point";
  bytes[8 + length + header[kName]["data_offsets"][1].get<size_t>() - 1] = 1;
  WriteWholeFile(path, bytes);
  ExpectRefused(Checkpoint::Open(folder.path()).status(), kName);
}

}  // namespace
}  // namespace npubank

#include "npubank/lazy_tensor/formats/model/model_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json SmallConfig() {
  return {{"model_type", "llama"},  {"vocab_size", 512},
          {"hidden_size", 64},      {"intermediate_size", 172},
          {"num_hidden_layers", 5}, {"num_attention_heads", 8},
          {"rms_norm_eps", 1e-5},   {"max_position_embeddings", 256}};
}

absl::StatusOr<ModelConfig> Parse(const Json& config) {
  return ParseModelConfig(config.dump(), "config.json");
}

absl::StatusOr<ModelConfig> With(const char* key, Json value) {
  Json config = SmallConfig();
  config[key] = std::move(value);
  return Parse(config);
}

void ExpectRefused(const absl::StatusOr<ModelConfig>& result, const std::string& why) {
  ASSERT_FALSE(result.ok()) << "accepted, but should say: " << why;
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("config.json"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(why));
}

TEST(ModelConfigTest, DefaultsAreThoseOfTransformers) {
  const auto config = Parse(SmallConfig());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_type, "llama");
  EXPECT_EQ(config->vocab_size, 512);
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->intermediate_size, 172);
  EXPECT_EQ(config->num_layers, 5);
  EXPECT_EQ(config->num_heads, 8);
  EXPECT_EQ(config->num_kv_heads, 8);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->context_length, 256);
  EXPECT_EQ(config->rms_norm_eps, 1e-5);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_FALSE(config->rope_interleaved);
  EXPECT_EQ(config->bos_token, 1);
  EXPECT_THAT(config->eos_tokens, ElementsAre(2));
  ASSERT_EQ(config->rope_frequencies.size(), 4u);
  EXPECT_FLOAT_EQ(config->rope_frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(config->rope_frequencies[1], 0.1f);
  EXPECT_FLOAT_EQ(config->rope_frequencies[3], 0.001f);
}

TEST(ModelConfigTest, StatedValuesWinOverDefaults) {
  Json json = SmallConfig();
  json.update({{"num_key_value_heads", 4},
               {"head_dim", 32},
               {"rope_theta", 100},
               {"tie_word_embeddings", true},
               {"bos_token_id", 7},
               {"eos_token_id", {3, 4}}});
  const auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 32);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->bos_token, 7);
  EXPECT_THAT(config->eos_tokens, ElementsAre(3, 4));
  EXPECT_FLOAT_EQ(config->rope_frequencies[8], 0.1f);
}

TEST(ModelConfigTest, NullMeansAbsent) {
  Json json = SmallConfig();
  for (const char* key : {"head_dim", "rope_scaling", "rope_parameters", "num_key_value_heads",
                          "bos_token_id", "attention_bias"}) {
    json[key] = nullptr;
  }
  EXPECT_TRUE(Parse(json).ok());
  ExpectRefused(With("hidden_size", nullptr), "'hidden_size' is missing");
}

TEST(ModelConfigTest, EveryNeededKeyIsNamedWhenMissing) {
  const Json whole = SmallConfig();
  for (const auto& [key, value] : whole.items()) {
    Json json = whole;
    json.erase(key);
    ExpectRefused(Parse(json), absl::StrCat("'", key, "' is missing"));
  }
}

TEST(ModelConfigTest, MistypedAndOutOfRangeValuesAreNamed) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings", "num_key_value_heads",
                          "head_dim", "eos_token_id", "bos_token_id"}) {
    for (const Json& bad : {Json("8"), Json(8.5), Json(-1), Json(uint64_t{1} << 63), Json(1e300),
                            Json::object(), Json(true), Json(int64_t{1} << 40)}) {
      ExpectRefused(With(key, bad), key);
    }
  }
  ExpectRefused(With("rms_norm_eps", "x"), "rms_norm_eps");
  ExpectRefused(With("rms_norm_eps", 0), "rms_norm_eps");
  ExpectRefused(With("rope_theta", -5), "rope_theta");
  ExpectRefused(With("tie_word_embeddings", 1), "tie_word_embeddings");
  ExpectRefused(With("eos_token_id", {2, 512}), "eos_token_id");
  ExpectRefused(With("num_key_value_heads", 3), "does not divide");
  ExpectRefused(With("num_attention_heads", 7), "not a multiple");
  ExpectRefused(With("head_dim", 7), "even");
  ExpectRefused(With("head_dim", 1 << 19), "times head_dim");
}

TEST(ModelConfigTest, OtherNetworksAreRefusedWithTheReason) {
  for (const char* other : {"gemma2", "gemma3", "mixtral", "qwen2_moe", "qwen3_moe", "phimoe", "phi", "gpt2"}) {
    ExpectRefused(With("model_type", other), absl::StrCat("'", other, "'; supported are 'llama', "));
  }
  ExpectRefused(With("model_type", 5), "model_type");
  ExpectRefused(With("attention_bias", true), "biases are not supported");
  ExpectRefused(With("mlp_bias", true), "biases are not supported");
  ExpectRefused(With("hidden_act", "gelu"), "'gelu'");
  ExpectRefused(With("partial_rotary_factor", 0.5), "partial");
}

TEST(ModelConfigTest, ASlidingWindowLeavesTheContextAsLongAsItIs) {
  for (const char* network : {"mistral", "phi3"}) {
    Json json = SmallConfig();
    json["model_type"] = network;
    json["sliding_window"] = nullptr;
    EXPECT_EQ(Parse(json)->sliding_window, 0);
    json["sliding_window"] = 100;
    EXPECT_EQ(Parse(json)->sliding_window, 100);
    EXPECT_EQ(Parse(json)->context_length, 256);
    json["sliding_window"] = 0;
    ExpectRefused(Parse(json), "sliding_window");
    json.erase("sliding_window");
    const bool mistral = std::string(network) == "mistral";
    EXPECT_EQ(Parse(json)->sliding_window, mistral ? 4096 : 0) << "as transformers has it";
  }
}

// Divisors for contexts up to 64, of a model stretched to 256: sqrt(1 + ln 4 / ln 64) is sqrt(4/3).
TEST(ModelConfigTest, LongropeIsPhi3sWithinItsOriginalContext) {
  Json json = SmallConfig();
  json["model_type"] = "phi3";
  json["original_max_position_embeddings"] = 64;
  json["rope_scaling"] = {{"type", "longrope"},
                          {"short_factor", {1, 2, 4, 8}},
                          {"long_factor", {9, 9, 9, 9}}};
  for (const char* spelling : {"longrope", "su"}) {
    json["rope_scaling"]["type"] = spelling;
    const auto config = Parse(json);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->context_length, 64);
    EXPECT_FLOAT_EQ(config->rope_frequencies[1], 0.1f / 2);
    EXPECT_FLOAT_EQ(config->rope_frequencies[3], 0.001f / 8);
    EXPECT_NEAR(config->rope_magnitude, std::sqrt(4.0 / 3), 1e-12);
  }
  Json llama = json;
  llama["model_type"] = "llama";
  llama.erase("original_max_position_embeddings");
  ExpectRefused(Parse(llama), "longrope");
  Json wrong = json;
  wrong["rope_scaling"]["short_factor"] = {1, 2, 4};
  ExpectRefused(Parse(wrong), "4 numbers");
  wrong["rope_scaling"]["short_factor"] = {1, 2, 0, 8};
  ExpectRefused(Parse(wrong), "short_factor");
  wrong["rope_scaling"]["short_factor"] = {1, 2, "4", 8};
  ExpectRefused(Parse(wrong), "short_factor");
  wrong = json;
  wrong["original_max_position_embeddings"] = 1;
  ExpectRefused(Parse(wrong), "original_max_position_embeddings");
  wrong.erase("original_max_position_embeddings");
  ExpectRefused(Parse(wrong), "original_max_position_embeddings");
  wrong = json;
  wrong["rope_scaling"]["type"] = "default";
  ExpectRefused(Parse(wrong), "short_factor");
}

TEST(ModelConfigTest, LinearScalingDividesEveryFrequency) {
  for (const char* spelling : {"type", "rope_type"}) {
    const auto config = With("rope_scaling", {{spelling, "linear"}, {"factor", 4.0}});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_FLOAT_EQ(config->rope_frequencies[0], 0.25f);
    EXPECT_FLOAT_EQ(config->rope_frequencies[1], 0.025f);
  }
}

// The three ranges by hand: with theta = 10000 and head_dim = 8 the pairs turn
// 8192 f / 2 pi = 1303.8, 130.38, 13.038 and 1.3038 times in the original context.
TEST(ModelConfigTest, Llama3ScalingKeepsFastBlendsMiddleAndDividesSlowFrequencies) {
  const auto config = With("rope_scaling", {{"rope_type", "llama3"},
                                            {"factor", 8.0},
                                            {"low_freq_factor", 2.0},
                                            {"high_freq_factor", 20.0},
                                            {"original_max_position_embeddings", 8192}});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(config->rope_frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(config->rope_frequencies[1], 0.1f);
  const double turns = 8192 * 0.01 / (2 * 3.14159265358979323846);
  const double keep = (turns - 2) / 18;
  EXPECT_NEAR(config->rope_frequencies[2], 0.01 * ((1 - keep) / 8 + keep), 1e-9);
  EXPECT_FLOAT_EQ(config->rope_frequencies[3], 0.001f / 8);
}

TEST(ModelConfigTest, RopeParametersOfNewerConfigsAreRead) {
  Json json = SmallConfig();
  json["rope_parameters"] = {{"rope_theta", 100.0}, {"rope_type", "default"}};
  const auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(config->rope_frequencies[2], 0.1f);
}

TEST(ModelConfigTest, ScalingThatIsNotUnderstoodIsRefused) {
  ExpectRefused(With("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}), "'yarn'");
  ExpectRefused(With("rope_scaling", {{"type", "linear"}}), "'factor' is missing");
  ExpectRefused(With("rope_scaling", {{"type", "linear"}, {"factor", 0}}), "factor");
  ExpectRefused(With("rope_scaling", "linear"), "must be an object");
  ExpectRefused(With("rope_scaling", {{"type", "llama3"}, {"factor", 8}}), "low_freq_factor");
  ExpectRefused(With("rope_scaling", {{"type", "llama3"},
                                      {"factor", 8},
                                      {"low_freq_factor", 4},
                                      {"high_freq_factor", 4},
                                      {"original_max_position_embeddings", 8192}}),
                "high_freq_factor");
}

TEST(ModelConfigTest, TextThatIsNotAConfigIsRefused) {
  ExpectRefused(ParseModelConfig("", "config.json"), "not valid JSON");
  ExpectRefused(ParseModelConfig("{\"a\":", "config.json"), "not valid JSON");
  ExpectRefused(ParseModelConfig("[]", "config.json"), "must be a JSON object");
  ExpectRefused(ParseModelConfig("{\"a\":1,\"a\":2}", "config.json"), "key 'a' twice");
  ExpectRefused(ParseModelConfig(std::string(10'000, '['), "config.json"), "nested deeper");
  ExpectRefused(ParseModelConfig("{\"a\":1e999}", "config.json"), "not valid JSON");
}

TEST(ModelConfigTest, FilesAreReadWithinBounds) {
  const TemporaryFolder folder;
  const auto read = ReadModelConfig(folder.Write("config.json", SmallConfig().dump()));
  EXPECT_TRUE(read.ok()) << read.status();
  const auto missing = ReadModelConfig(folder.path() + "/none.json");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound) << missing.status();
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("none.json"));
  ExpectRefused(ReadModelConfig(folder.Write("config.json", std::string(2 << 20, ' '))),
                "more than");
}

TEST(JsonTest, ValuesAreCounted) {
  std::string text = "[0";
  for (size_t i = 0; i < kMaxJsonValues; ++i) text += ",0";
  const auto parsed = ParseJson(text + "]", "big.json");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("more than"));
}

TEST(JsonTest, QuotedTextIsOnePrintableLine) {
  EXPECT_EQ(Quote("a\nb\xFF\""), "'a\\nb\\xff\\\"'");
  EXPECT_EQ(Quote(std::string(500, 'x')), absl::StrCat("'", std::string(100, 'x'), "...'"));
}

}  // namespace
}  // namespace npubank

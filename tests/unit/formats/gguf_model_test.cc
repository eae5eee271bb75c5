#include "npubank/lazy_tensor/formats/model/gguf_model.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/formats/model/networks.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/unit/formats/gguf_builder.h"
#include "npubank/tests/unit/formats/stored_bytes.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using B = GgufBuilder;

// The metadata of a small model, without the keys in `without`.
GgufBuilder SmallModel(const std::string& without = "") {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama");
  const std::pair<const char*, uint32_t> kNumbers[] = {
      {"llama.context_length", 128},     {"llama.embedding_length", 64},
      {"llama.block_count", 2},          {"llama.feed_forward_length", 96},
      {"llama.attention.head_count", 8}, {"llama.attention.head_count_kv", 4}};
  for (const auto& [key, value] : kNumbers) {
    if (key != without) builder.Number(key, value);
  }
  if (without != "llama.attention.layer_norm_rms_epsilon") {
    builder.Real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  }
  builder.Tensor("token_embd.weight", {64, 300}, 1, 0);
  return builder;
}
constexpr size_t kSmallData = 64 * 300 * 2;

absl::StatusOr<ModelConfig> ConfigOf(const GgufBuilder& builder, size_t more_data = 0) {
  const auto source = SourceOf(builder.Finish(kSmallData + more_data), "x.gguf");
  const auto file = ReadGguf(*source);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return file.status();
  return GgufModelConfig(*file, *source);
}

void ExpectRefused(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << ", not " << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr("x.gguf"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(GgufModelTest, MetadataBecomesAModelConfig) {
  const auto config = ConfigOf(SmallModel()
                                   .Real("llama.rope.freq_base", 100)
                                   .Number("tokenizer.ggml.bos_token_id", 5)
                                   .Number("tokenizer.ggml.eos_token_id", 6));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vocab_size, 300);
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->intermediate_size, 96);
  EXPECT_EQ(config->num_layers, 2);
  EXPECT_EQ(config->num_heads, 8);
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->context_length, 128);
  EXPECT_FLOAT_EQ(static_cast<float>(config->rms_norm_eps), 1e-5f);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_TRUE(config->rope_interleaved);
  EXPECT_EQ(config->bos_token, 5);
  EXPECT_THAT(config->eos_tokens, ElementsAre(6));
  EXPECT_FLOAT_EQ(config->rope_frequencies[2], 0.1f);
}

TEST(GgufModelTest, AnOutputTensorMeansTheHeadIsNotTied) {
  const auto config =
      ConfigOf(SmallModel().Tensor("output.weight", {64, 300}, 1, kSmallData), kSmallData);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->tied_embeddings);
}

TEST(GgufModelTest, NeededKeysAreNamedWhenMissing) {
  for (const char* key : {"llama.context_length", "llama.embedding_length", "llama.block_count",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    ExpectRefused(ConfigOf(SmallModel(key)).status(), absl::StrCat("'", key, "' is missing"));
  }
  ExpectRefused(ConfigOf(GgufBuilder()).status(), "general.architecture");
}

TEST(GgufModelTest, OtherNetworksAreRefusedWithTheReason) {
  ExpectRefused(ConfigOf(GgufBuilder().Text("general.architecture", "gpt2")).status(), "'gpt2'");
  ExpectRefused(ConfigOf(SmallModel().Number("llama.expert_count", 8)).status(), "experts");
  ExpectRefused(ConfigOf(SmallModel().Number("llama.rope.dimension_count", 4)).status(),
                "head size 8");
  ExpectRefused(ConfigOf(SmallModel().Number("llama.attention.value_length", 4)).status(),
                "head size 8");
  ExpectRefused(ConfigOf(SmallModel().Text("llama.rope.scaling.type", "yarn")).status(), "yarn");
  ExpectRefused(ConfigOf(SmallModel().Text("llama.vocab_size", "300")).status(),
                "must be a number");
  // Bounds are those of config.json.
  ExpectRefused(
      ConfigOf(SmallModel("llama.block_count").Number("llama.block_count", 5000)).status(),
      "num_hidden_layers");
}

TEST(GgufModelTest, LinearScalingIsReadInBothSpellings) {
  const auto spelled = ConfigOf(
      SmallModel().Text("llama.rope.scaling.type", "linear").Real("llama.rope.scaling.factor", 4));
  ASSERT_TRUE(spelled.ok()) << spelled.status();
  EXPECT_FLOAT_EQ(spelled->rope_frequencies[0], 0.25f);
  const auto older = ConfigOf(SmallModel().Real("llama.rope.scale_linear", 2));
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_FLOAT_EQ(older->rope_frequencies[0], 0.5f);
  const auto none = ConfigOf(SmallModel().Text("llama.rope.scaling.type", "none"));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FLOAT_EQ(none->rope_frequencies[0], 1.0f);
}

TEST(GgufModelTest, RopeFactorsDivideTheFrequencies) {
  std::string bytes =
      SmallModel().Tensor("rope_freqs.weight", {4}, 0, kSmallData).Finish(kSmallData);
  for (const float factor : {1.0f, 2.0f, 4.0f, 8.0f}) bytes += B::Float(factor);
  auto source = SourceOf(bytes, "x.gguf");
  auto config = GgufModelConfig(*ReadGguf(*source), *source);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->rope_frequencies, ElementsAre(1.0f, 0.1f / 2, 0.01f / 4, 0.001f / 8));

  bytes.replace(bytes.size() - 4, 4, B::Float(0));
  source = SourceOf(bytes, "x.gguf");
  ExpectRefused(GgufModelConfig(*ReadGguf(*source), *source).status(), "factor 3");
  ExpectRefused(ConfigOf(SmallModel().Tensor("rope_freqs.weight", {3}, 0, kSmallData), 12).status(),
                "rope_freqs.weight");
}

TEST(GgufModelTest, NamesBecomeThoseOfAFolder) {
  const std::pair<const char*, const char*> kNames[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
      {"blk.17.attn_q.weight", "model.layers.17.self_attn.q_proj.weight"},
      {"blk.17.attn_k.weight", "model.layers.17.self_attn.k_proj.weight"},
      {"blk.17.attn_v.weight", "model.layers.17.self_attn.v_proj.weight"},
      {"blk.17.attn_output.weight", "model.layers.17.self_attn.o_proj.weight"},
      {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
      {"blk.3.ffn_gate.weight", "model.layers.3.mlp.gate_proj.weight"},
      {"blk.3.ffn_up.weight", "model.layers.3.mlp.up_proj.weight"},
      {"blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"},
      {"rope_freqs.weight", "rope_freqs.weight"},
      {"blk.x.attn_q.weight", "blk.x.attn_q.weight"},
      {"blk.3.other", "blk.3.other"},
      {"blk.", "blk."},
      {"blk.3", "blk.3"},
      {"", ""}};
  for (const auto& [gguf, name] : kNames) EXPECT_EQ(HubName(LlamaNames(), gguf), name);
  EXPECT_EQ(HubName(Phi3Names(), "blk.3.ffn_up.weight"), "model.layers.3.mlp.gate_up_proj.weight");
  EXPECT_EQ(HubName(Phi3Names(), "blk.3.attn_q.weight"), "blk.3.attn_q.weight");
  EXPECT_EQ(HubName(Qwen2Names(), "blk.3.attn_q.bias"), "model.layers.3.self_attn.q_proj.bias");
}

TEST(GgufCheckpointTest, TensorsAreFoundByEitherName) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("small.gguf", SmallModel().Finish(kSmallData));
  const auto checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE((*checkpoint)->config().rope_interleaved);
  const auto stored = (*checkpoint)->Tensor("token_embd.weight");
  const auto meant = (*checkpoint)->Tensor("model.embed_tokens.weight");
  ASSERT_TRUE(stored.ok() && meant.ok()) << stored.status() << meant.status();
  EXPECT_EQ(stored->type().ToString(), "F16[300,64]");
  EXPECT_EQ(stored->digest(), meant->digest());
  EXPECT_TRUE((*checkpoint)->Contains("model.embed_tokens.weight"));
  EXPECT_FALSE((*checkpoint)->Contains("model.norm.weight"));
  EXPECT_EQ((*checkpoint)->Tensor("model.norm.weight").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(GgufCheckpointTest, AFileThatIsNoModelIsRefused) {
  const TemporaryFolder folder;
  const auto result = Checkpoint::Open(folder.Write("model.safetensors", "not a model"));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
}

void ExpectSameBytes(const Checkpoint& a, const Checkpoint& b,
                     const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto x = a.Tensor(name);
    const auto y = b.Tensor(name);
    ASSERT_TRUE(x.ok() && y.ok()) << name;
    EXPECT_EQ(x->type(), y->type());
    EXPECT_EQ(StoredBytes(*x), StoredBytes(*y)) << name;
  }
}

TEST(GgufCheckpointTest, TheStoriesModelHasTheNormsConfigAndWordsOfItsFolder) {
  const auto folder = Checkpoint::Open(StoriesFolder());
  const auto gguf = Checkpoint::Open(StoriesGguf());
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  const ModelConfig& a = (*folder)->config();
  const ModelConfig& b = (*gguf)->config();
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
  EXPECT_EQ(a.rope_frequencies, b.rope_frequencies);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  ExpectSameBytes(**folder, **gguf,
                  {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                   "model.layers.4.post_attention_layernorm.weight"});
}

TEST(GgufCheckpointTest, TheStoriesModelInF32HasTheWeightsOfItsFolder) {
  const std::string file = SharedStories("gguf/stories260K-f32.gguf");
  if (file.empty()) GTEST_SKIP() << "not beside the checkout: stories260K-f32.gguf";
  const auto folder = Checkpoint::Open(StoriesFolder());
  const auto gguf = Checkpoint::Open(file);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ExpectSameBytes(
      **folder, **gguf,
      {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.self_attn.v_proj.weight",
       "model.layers.4.mlp.down_proj.weight"});
}

}  // namespace
}  // namespace npubank

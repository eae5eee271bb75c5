#include "npubank/lazy_tensor/formats/model/network_names.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/lazy_tensor/formats/quantization.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/unit/formats/refused_name.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

Json SmallConfig() {
  return {{"model_type", "llama"},  {"vocab_size", 512},
          {"hidden_size", 64},      {"intermediate_size", 172},
          {"num_hidden_layers", 2}, {"num_attention_heads", 8},
          {"rms_norm_eps", 1e-5},   {"max_position_embeddings", 256}};
}

// What the published configs have beside the dimensions.
TEST(NetworkNamesTest, PublishedConfigsAreAccepted) {
  const std::pair<const char*, Json> kPublished[] = {
      {"Llama 1",
       {{"_name_or_path", "llama-13b/"},
        {"architectures", {"LlamaForCausalLM"}},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"max_sequence_length", 2048},
        {"pad_token_id", 0},
        {"tie_word_embeddings", false},
        {"torch_dtype", "float16"},
        {"transformers_version", "4.28.0.dev0"},
        {"use_cache", true}}},
      {"Llama 2",
       {{"_name_or_path", "meta-llama/Llama-2-7b-hf"},
        {"architectures", {"LlamaForCausalLM"}},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"num_key_value_heads", 8},
        {"pretraining_tp", 1},
        {"rope_scaling", nullptr},
        {"tie_word_embeddings", false},
        {"torch_dtype", "float16"},
        {"transformers_version", "4.31.0.dev0"},
        {"use_cache", true}}},
      {"Llama 3.2",
       {{"architectures", {"LlamaForCausalLM"}},
        {"attention_bias", false},
        {"attention_dropout", 0.0},
        {"bos_token_id", 100},
        {"eos_token_id", {101, 108, 109}},
        {"head_dim", 8},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"mlp_bias", false},
        {"num_key_value_heads", 8},
        {"pretraining_tp", 1},
        {"rope_scaling",
         {{"factor", 32.0},
          {"high_freq_factor", 4.0},
          {"low_freq_factor", 1.0},
          {"original_max_position_embeddings", 8192},
          {"rope_type", "llama3"}}},
        {"rope_theta", 500000.0},
        {"tie_word_embeddings", true},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.45.0.dev0"},
        {"use_cache", true},
        {"_commit_hash", "4e20de36"}}},
      {"TinyLlama",
       {{"_name_or_path", "TinyLlama"},
        {"architectures", {"LlamaForCausalLM"}},
        {"attention_bias", false},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"num_key_value_heads", 4},
        {"pretraining_tp", 1},
        {"rope_scaling", nullptr},
        {"rope_theta", 10000.0},
        {"tie_word_embeddings", false},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.35.0"},
        {"use_cache", true}}},
      {"SmolLM2",
       {{"architectures", {"LlamaForCausalLM"}},
        {"attention_bias", false},
        {"attention_dropout", 0.0},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"is_llama_config", true},
        {"mlp_bias", false},
        {"num_key_value_heads", 8},
        {"pad_token_id", 2},
        {"pretraining_tp", 1},
        {"rope_interleaved", false},
        {"rope_scaling", nullptr},
        {"rope_theta", 100000},
        {"tie_word_embeddings", true},
        {"torch_dtype", "bfloat16"},
        {"transformers.js_config",
         {{"kv_cache_dtype", {{"q4f16", "float16"}, {"fp16", "float16"}}}}},
        {"transformers_version", "4.42.3"},
        {"use_cache", true}}},
      {"Mistral",
       {{"model_type", "mistral"},
        {"architectures", {"MistralForCausalLM"}},
        {"attention_dropout", 0.0},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"num_key_value_heads", 8},
        {"rope_theta", 10000.0},
        {"sliding_window", 4096},
        {"tie_word_embeddings", false},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.34.0.dev0"},
        {"use_cache", true}}},
      {"Mistral v0.3",
       {{"model_type", "mistral"},
        {"architectures", {"MistralForCausalLM"}},
        {"attention_dropout", 0.0},
        {"bos_token_id", 1},
        {"eos_token_id", 2},
        {"head_dim", 8},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"num_key_value_heads", 8},
        {"rope_theta", 1000000.0},
        {"sliding_window", nullptr},
        {"tie_word_embeddings", false},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.42.0.dev0"},
        {"use_cache", true}}},
      {"Qwen 2.5",
       {{"model_type", "qwen2"},
        {"architectures", {"Qwen2ForCausalLM"}},
        {"attention_dropout", 0.0},
        {"bos_token_id", 100},
        {"eos_token_id", 100},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"max_window_layers", 24},
        {"num_key_value_heads", 2},
        {"rope_theta", 1000000.0},
        {"sliding_window", 32768},
        {"tie_word_embeddings", true},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.40.1"},
        {"use_cache", true},
        {"use_mrope", false},
        {"use_sliding_window", false}}},
      {"Qwen 3",
       {{"model_type", "qwen3"},
        {"architectures", {"Qwen3ForCausalLM"}},
        {"attention_bias", false},
        {"attention_dropout", 0.0},
        {"bos_token_id", 100},
        {"eos_token_id", 101},
        {"head_dim", 16},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"max_window_layers", 28},
        {"num_key_value_heads", 8},
        {"rope_scaling", nullptr},
        {"rope_theta", 1000000},
        {"sliding_window", nullptr},
        {"tie_word_embeddings", true},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.51.0"},
        {"use_cache", true},
        {"use_sliding_window", false}}},
      {"Qwen 3, saved again",
       {{"model_type", "qwen3"},
        {"dtype", "bfloat16"},
        {"layer_types", {"full_attention", "full_attention"}},
        {"pad_token_id", 102},
        {"unsloth_fixed", true}}},
      {"Phi-3 mini",
       {{"model_type", "phi3"},
        {"_name_or_path", "Phi-3-mini-4k-instruct"},
        {"architectures", {"Phi3ForCausalLM"}},
        {"attention_bias", false},
        {"attention_dropout", 0.0},
        {"auto_map",
         {{"AutoConfig", "configuration_phi3.Phi3Config"},
          {"AutoModelForCausalLM", "modeling_phi3.Phi3ForCausalLM"}}},
        {"bos_token_id", 1},
        {"embd_pdrop", 0.0},
        {"eos_token_id", 100},
        {"hidden_act", "silu"},
        {"initializer_range", 0.02},
        {"num_key_value_heads", 8},
        {"original_max_position_embeddings", 256},
        {"pad_token_id", 100},
        {"resid_pdrop", 0.0},
        {"rope_scaling", nullptr},
        {"rope_theta", 10000.0},
        {"sliding_window", 2047},
        {"tie_word_embeddings", false},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.40.2"},
        {"use_cache", true}}},
      {"Phi-3.5 mini",
       {{"model_type", "phi3"},
        {"architectures", {"Phi3ForCausalLM"}},
        {"attention_bias", false},
        {"max_position_embeddings", 8192},
        {"original_max_position_embeddings", 256},
        {"num_key_value_heads", 8},
        {"rope_scaling",
         {{"long_factor", {1.08, 1.11, 1.14, 1.34}},
          {"short_factor", {1.0, 1.02, 1.03, 1.03}},
          {"type", "longrope"}}},
        {"rope_theta", 10000.0},
        {"sliding_window", 262144},
        {"torch_dtype", "bfloat16"},
        {"transformers_version", "4.43.3"}}},
      {"of a newer library",
       {{"dtype", "bfloat16"},
        {"rope_parameters", {{"rope_theta", 500000.0}, {"rope_type", "default"}}}}},
  };
  for (const auto& [model, more] : kPublished) {
    Json config = SmallConfig();
    config.update(more);
    EXPECT_EQ(ParseModelConfig(config.dump(), "config.json").status(), absl::OkStatus()) << model;
  }
}

TEST(NetworkNamesTest, AConfigKeyThatNobodyKnowsIsRefusedByName) {
  const std::pair<const char*, Json> kKeys[] = {
      {"attention_multiplier", 0.5}, {"logit_scale", 0.0625},
      {"qk_layernorm", true},        {"use_parallel_residual", true},
      {"num_local_experts", 8},      {"layer_types", {"sliding_attention"}},
      {"Hidden_size", 64},           {"", 1}};
  for (const auto& [key, value] : kKeys) {
    Json config = SmallConfig();
    config[key] = value;
    ExpectRefused(ParseModelConfig(config.dump(), "config.json").status(), "config.json", key,
                  "remove it");
    config[key] = nullptr;  // says nothing
    EXPECT_EQ(ParseModelConfig(config.dump(), "config.json").status(), absl::OkStatus()) << key;
  }
}

TEST(NetworkNamesTest, AConfigKeyThatMakesAnotherNetworkIsRefusedUnlessItSaysNothing) {
  struct Case {
    const char* key;
    Json refused;
    Json says_nothing;
    const char* why;
  };
  const Case kCases[] = {
      {"attention_bias", true, false, "biases"},
      {"mlp_bias", true, false, "biases"},
      {"hidden_act", "gelu", "silu", "'gelu'; supported is 'silu'"},
      {"rope_interleaved", true, false, "halves"},
      {"sliding_window", 4096, nullptr, "model_type 'mistral'"},
      {"auto_map", {{"AutoModelForCausalLM", "x.Y"}}, Json::object(), "code of the model's own"},
      {"pruned_heads", {{"0", {1}}}, Json::object(), "pruned"},
      {"add_cross_attention", true, false, "see themselves only"},
      {"is_encoder_decoder", true, false, "decoders"}};
  for (const Case& c : kCases) {
    Json config = SmallConfig();
    config[c.key] = c.refused;
    ExpectRefused(ParseModelConfig(config.dump(), "config.json").status(), "config.json", c.key,
                  c.why);
    config[c.key] = c.says_nothing;
    EXPECT_EQ(ParseModelConfig(config.dump(), "config.json").status(), absl::OkStatus()) << c.key;
  }
}

TEST(NetworkNamesTest, RopeScalingWithoutATypeOrWithMoreThanItsTypeKnowsIsRefused) {
  const std::pair<Json, const char*> kRefusedScalings[] = {
      {{{"factor", 4.0}}, "factor"},
      {{{"rope_theta", 10000.0}, {"low_freq_factor", 1.0}}, "low_freq_factor"},
      {{{"rope_type", "default"}, {"factor", 2.0}}, "factor"},
      {{{"rope_type", "linear"}, {"factor", 2.0}, {"attention_factor", 1.2}}, "attention_factor"},
      {{{"rope_type", "linear"}, {"factor", 2.0}, {"mscale", 1}}, "mscale"}};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    for (const auto& [scaling, name] : kRefusedScalings) {
      Json config = SmallConfig();
      config[key] = scaling;
      ExpectRefused(ParseModelConfig(config.dump(), "config.json").status(), key, name,
                    "remove it");
    }
  }
}

// A folder of a model of two layers: tensors of four bytes each, which are zero or not.
absl::Status OpenFolderWith(const std::vector<std::string>& names,
                            const Json& more = Json::object(), char fill = 'x') {
  const TemporaryFolder folder;
  Json config = SmallConfig();
  config.update(more);
  folder.Write("config.json", config.dump());
  Json header = Json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    header[names[i]] = {{"dtype", "U8"}, {"shape", {4}}, {"data_offsets", {4 * i, 4 * i + 4}}};
  }
  const std::string text = header.dump();
  folder.Write("model.safetensors",
               LittleEndian64(text.size()) + text + std::string(4 * names.size(), fill));
  return Checkpoint::Open(folder.path()).status();
}

TEST(NetworkNamesTest, ATensorOfAFolderThatTheNetworkDoesNotUseIsRefusedByName) {
  const std::pair<const char*, const char*> kRefusedTensors[] = {
      {"model.layers.0.self_attn.q_proj.bias", "biases"},
      {"model.layers.0.self_attn.k_proj.bias", "biases"},
      {"model.layers.1.self_attn.v_proj.bias", "biases"},
      {"model.layers.1.mlp.down_proj.bias", "biases"},
      {"lm_head.bias", "biases"},
      {"model.layers.0.self_attn.q_norm.weight", "queries and keys"},
      {"model.layers.0.self_attn.k_norm.weight", "queries and keys"},
      {"model.layers.0.self_attn.q_proj.weight_scale", "scales"},
      {"model.layers.0.mlp.up_proj.input_scale", "scales"},
      {"model.layers.0.mlp.up_proj.weight_scale_inv", "scales"},
      {"model.layers.0.mlp.up_proj.qweight", "quantization_config"},
      {"model.layers.0.mlp.up_proj.qzeros", "quantization_config"},
      {"model.layers.0.mlp.up_proj.scales", "quantization_config"},
      {"model.layers.0.mlp.up_proj.g_idx", "quantization_config"},
      {"model.layers.0.mlp.up_proj.weight_zero_point", "symmetric=true"},
      {"model.layers.0.pre_feedforward_layernorm.weight", "remove it"},
      {"model.layers.0.block_sparse_moe.gate.weight", "remove it"},
      {"model.layers.2.self_attn.q_proj.weight", "layer 2, but the config has 2 layers"},
      {"model.layers.2.self_attn.rotary_emb.inv_freq", "layer 2, but the config has 2 layers"},
      {"model.layers.99999999999999999999.mlp.up_proj.weight", "but the config has 2 layers"},
      {"model.layers.00.mlp.up_proj.weight", "remove it"},
      {"model.layers.-1.mlp.up_proj.weight", "remove it"},
      {"model.layers..mlp.up_proj.weight", "remove it"},
      {"score.weight", "remove it"},
      {"model.norm.weight2", "remove it"},
      {"", "remove it"}};
  for (const auto& [name, why] : kRefusedTensors) {
    ExpectRefused(OpenFolderWith({"model.norm.weight", name}), "model.safetensors", name, why);
  }
}

TEST(NetworkNamesTest, TensorsThatChangeNothingAreLeftAlone) {
  EXPECT_EQ(
      OpenFolderWith({"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                      "model.layers.1.self_attn.rotary_emb.cos_cached"}),
      absl::OkStatus());
  EXPECT_EQ(OpenFolderWith({"lm_head.weight", "model.embed_tokens.weight"},
                           {{"tie_word_embeddings", true}}),
            absl::OkStatus());
}

// AutoGPTQ writes a bias of zeros beside every layer, whether the network has one or not.
TEST(NetworkNamesTest, ABiasOfZerosAddsNothing) {
  EXPECT_EQ(
      OpenFolderWith({"model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.gate_proj.bias"},
                     Json::object(), '\0'),
      absl::OkStatus());
}

TEST(NetworkNamesTest, PartsOfAQuantisedWeightAreThoseOfItsMethod) {
  const std::string stem = "model.layers.0.mlp.up_proj";
  const std::vector<std::string> parts = {stem + ".qweight", stem + ".qzeros", stem + ".scales"};
  const Json awq = {
      {"quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}}}};
  const Json gptq = {
      {"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}}};
  EXPECT_EQ(OpenFolderWith(parts, awq), absl::OkStatus());
  std::vector<std::string> with_groups = parts;
  with_groups.push_back(stem + ".g_idx");
  EXPECT_EQ(OpenFolderWith(with_groups, gptq), absl::OkStatus());
  ExpectRefused(OpenFolderWith(with_groups, awq), "model.safetensors", stem + ".g_idx",
                "quantised");
  ExpectRefused(OpenFolderWith({"model.layers.0.self_attn.qkv.qweight"}, gptq), "model.safetensors",
                "model.layers.0.self_attn.qkv.qweight", "remove it");
  std::vector<std::string> both = parts;
  both.push_back(stem + ".weight");
  ExpectRefused(OpenFolderWith(both, awq), "has both", stem + ".weight", stem + ".qweight");
}

absl::Status ParseQuantizationWith(Json settings, const char* key, const Json& value) {
  settings[key] = value;
  return ParseQuantization(Json{{"quantization_config", settings}}.dump(), "config.json").status();
}

TEST(NetworkNamesTest, SettingsOfQuantisationAreKnownOrRefused) {
  const Json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  const Json awq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  const std::pair<Json, Json> kPublished[] = {{gptq,
                                               {{"damp_percent", 0.1},
                                                {"desc_act", false},
                                                {"model_file_base_name", "model"},
                                                {"model_name_or_path", nullptr},
                                                {"static_groups", false},
                                                {"sym", true},
                                                {"true_sequential", true}}},
                                              {gptq,
                                               {{"batch_size", 1},
                                                {"block_name_to_quantize", nullptr},
                                                {"cache_block_outputs", true},
                                                {"dataset", "c4"},
                                                {"exllama_config", {{"version", 1}}},
                                                {"max_input_length", nullptr},
                                                {"model_seqlen", nullptr},
                                                {"module_name_preceding_first_block", nullptr},
                                                {"modules_in_block_to_quantize", nullptr},
                                                {"pad_token_id", nullptr},
                                                {"tokenizer", nullptr},
                                                {"use_cuda_fp16", false},
                                                {"use_exllama", true}}},
                                              {gptq,
                                               {{"checkpoint_format", "gptq"},
                                                {"lm_head", false},
                                                {"pack_dtype", "int32"},
                                                {"dynamic", nullptr},
                                                {"meta", {{"quantizer", {"gptqmodel:1.4.0"}}}}}},
                                              {awq, {{"version", "gemm"}, {"zero_point", true}}},
                                              {awq,
                                               {{"backend", "autoawq"},
                                                {"do_fuse", false},
                                                {"exllama_config", nullptr},
                                                {"fuse_max_seq_len", nullptr},
                                                {"modules_to_fuse", nullptr},
                                                {"modules_to_not_convert", {"lm_head"}},
                                                {"version", "gemm"},
                                                {"zero_point", true}}}};
  for (const auto& [settings, more] : kPublished) {
    Json whole = settings;
    whole.update(more);
    EXPECT_EQ(ParseQuantizationWith(whole, "bits", 4), absl::OkStatus()) << more.dump();
  }
  const auto refused = [](const absl::Status& status, const char* key) {
    ExpectRefused(status, "config.json: quantization_config", key, "");
  };
  refused(ParseQuantizationWith(gptq, "is_marlin_format", true), "is_marlin_format");
  refused(ParseQuantizationWith(gptq, "pack_dtype", "int64"), "pack_dtype");
  refused(ParseQuantizationWith(gptq, "bits", 3), "bits");
  refused(ParseQuantizationWith(gptq, "group_size", 0), "group_size");
  refused(ParseQuantizationWith(gptq, "rotation", "hadamard"), "rotation");
  refused(ParseQuantizationWith(gptq, "zero_point", true), "zero_point");
  refused(ParseQuantizationWith(awq, "zero_point", false), "zero_point");
  refused(ParseQuantizationWith(awq, "version", "gemv"), "version");
  refused(ParseQuantizationWith(awq, "backend", "llm-awq"), "backend");
  refused(ParseQuantizationWith(awq, "desc_act", true), "desc_act");
}

TEST(NetworkNamesTest, TheStoriesModelsAreAcceptedInEveryFormat) {
  const TemporaryFolder gptq, awq, int8, packed, shards;
  WriteInt8Stories(int8.path());
  WritePackedStories(packed.path(), 8);
  WriteGptqStories(gptq.path());
  WriteAwqStories(awq.path());
  WriteShardedStories(shards.path());
  for (const std::string& path :
       {StoriesFolder(), StoriesGguf(), gptq.path(), awq.path(), int8.path(), packed.path(),
        shards.path()}) {
    EXPECT_EQ(Checkpoint::Open(path).status(), absl::OkStatus()) << path;
  }
}

}  // namespace
}  // namespace npubank

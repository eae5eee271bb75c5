#include "npubank/tools/checkpoints/made_up_network.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

using Json = nlohmann::ordered_json;
using Network = CheckpointNetwork;

// Names in files: of the class that transformers has, of the config, of GGUF.
struct Names {
  const char* architecture;
  const char* model_type;
  const char* gguf;
};
Names NamesOf(Network network) {
  switch (network) {
    case Network::kLlama:
      return {"LlamaForCausalLM", "llama", "llama"};
    case Network::kMistral:
      return {"MistralForCausalLM", "mistral", "llama"};
    case Network::kQwen2:
      return {"Qwen2ForCausalLM", "qwen2", "qwen2"};
    case Network::kQwen3:
      return {"Qwen3ForCausalLM", "qwen3", "qwen3"};
    case Network::kPhi3:
      return {"Phi3ForCausalLM", "phi3", "phi3"};
  }
  return {};
}

Json LongRope(int64_t pairs) {
  Json scaling = {
      {"long_factor", Json::array()}, {"short_factor", Json::array()}, {"type", "longrope"}};
  for (int64_t i = 0; i < pairs; ++i) {
    scaling["long_factor"].push_back(2 + static_cast<double>(i));
    scaling["short_factor"].push_back(1 + static_cast<double>(i) / 16);
  }
  return scaling;
}

}  // namespace

int64_t MadeUpNetwork::head_dim() const {
  return shape_.head_dim != 0 ? shape_.head_dim : shape_.hidden / shape_.heads;
}

bool MadeUpNetwork::scales_rope() const {
  return shape_.original_context != 0 && shape_.original_context < shape_.context;
}

double MadeUpNetwork::rope_magnitude() const {
  if (!scales_rope() || shape_.network != Network::kPhi3) return 1;
  const auto original = static_cast<double>(shape_.original_context);
  return std::sqrt(1 +
                   std::log(static_cast<double>(shape_.context) / original) / std::log(original));
}

std::vector<LogicalTensor> MadeUpNetwork::Tensors() const {
  std::vector<LogicalTensor> all = {
      {"model.embed_tokens.weight", "token_embd.weight", {shape_.vocab, shape_.hidden}}};
  for (int64_t layer = 0; layer < shape_.layers; ++layer) AddLayer(layer, all);
  all.push_back({"model.norm.weight", "output_norm.weight", {shape_.hidden}});
  if (!shape_.tied)
    all.push_back({"lm_head.weight", "output.weight", {shape_.vocab, shape_.hidden}});
  if (!scales_rope()) return all;
  if (shape_.network == Network::kPhi3) {
    all.push_back({"", "rope_factors_long.weight", {head_dim() / 2}, false, true});
    all.push_back({"", "rope_factors_short.weight", {head_dim() / 2}, false, true});
  } else {
    all.push_back({"", "rope_freqs.weight", {head_dim() / 2}, false, true});
  }
  return all;
}

void MadeUpNetwork::AddLayer(int64_t layer, std::vector<LogicalTensor>& all) const {
  const int64_t hidden = shape_.hidden;
  const int64_t inner = shape_.intermediate;
  const int64_t query = shape_.heads * head_dim();
  const int64_t kv = shape_.kv_heads * head_dim();
  const auto add = [&](const char* hub, const char* gguf, std::vector<int64_t> dims) {
    const bool linear = dims.size() == 2;
    all.push_back({absl::StrCat("model.layers.", layer, ".", hub),
                   absl::StrCat("blk.", layer, ".", gguf), std::move(dims), linear});
  };
  const bool fused = shape_.network == Network::kPhi3;
  add("input_layernorm.weight", "attn_norm.weight", {hidden});
  add("mlp.down_proj.weight", "ffn_down.weight", {hidden, inner});
  if (fused) {
    add("mlp.gate_up_proj.weight", "ffn_up.weight", {2 * inner, hidden});
  } else {
    add("mlp.gate_proj.weight", "ffn_gate.weight", {inner, hidden});
    add("mlp.up_proj.weight", "ffn_up.weight", {inner, hidden});
  }
  add("post_attention_layernorm.weight", "ffn_norm.weight", {hidden});
  if (fused) {
    add("self_attn.o_proj.weight", "attn_output.weight", {hidden, query});
    add("self_attn.qkv_proj.weight", "attn_qkv.weight", {query + 2 * kv, hidden});
    return;
  }
  add("self_attn.k_proj.weight", "attn_k.weight", {kv, hidden});
  add("self_attn.o_proj.weight", "attn_output.weight", {hidden, query});
  add("self_attn.q_proj.weight", "attn_q.weight", {query, hidden});
  add("self_attn.v_proj.weight", "attn_v.weight", {kv, hidden});
  if (shape_.network == Network::kQwen2) {
    add("self_attn.k_proj.bias", "attn_k.bias", {kv});
    add("self_attn.q_proj.bias", "attn_q.bias", {query});
    add("self_attn.v_proj.bias", "attn_v.bias", {kv});
  }
  if (shape_.network == Network::kQwen3) {
    add("self_attn.k_norm.weight", "attn_k_norm.weight", {head_dim()});
    add("self_attn.q_norm.weight", "attn_q_norm.weight", {head_dim()});
  }
}

Json MadeUpNetwork::Config() const {
  const Names names = NamesOf(shape_.network);
  Json config = {{"architectures", {names.architecture}},
                 {"model_type", names.model_type},
                 {"vocab_size", shape_.vocab},
                 {"hidden_size", shape_.hidden},
                 {"intermediate_size", shape_.intermediate},
                 {"num_hidden_layers", shape_.layers},
                 {"num_attention_heads", shape_.heads},
                 {"num_key_value_heads", shape_.kv_heads},
                 {"head_dim", head_dim()},
                 {"max_position_embeddings", shape_.context},
                 {"rope_theta", kRopeTheta},
                 {"rms_norm_eps", kEpsilon},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", shape_.tied},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2}};
  const Json window = shape_.window == 0 ? Json(nullptr) : Json(shape_.window);
  switch (shape_.network) {
    case Network::kLlama:
      config.update({{"attention_bias", false}, {"mlp_bias", false}});
      if (scales_rope()) {
        config["rope_scaling"] = {{"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", shape_.original_context},
                                  {"rope_type", "llama3"}};
      }
      break;
    case Network::kMistral:
      config["sliding_window"] = window;
      break;
    case Network::kQwen3:
      config["attention_bias"] = false;
      [[fallthrough]];
    case Network::kQwen2:
      config.update({{"max_window_layers", shape_.layers},
                     {"sliding_window", window},
                     {"use_sliding_window", false}});
      break;
    case Network::kPhi3:
      config.update({{"attention_bias", false},
                     {"embd_pdrop", 0.0},
                     {"resid_pdrop", 0.0},
                     {"original_max_position_embeddings",
                      scales_rope() ? shape_.original_context : shape_.context},
                     {"rope_scaling", scales_rope() ? LongRope(head_dim() / 2) : Json(nullptr)},
                     {"sliding_window", window}});
      break;
  }
  return config;
}

Json MadeUpNetwork::Metadata() const {
  const std::string name = NamesOf(shape_.network).gguf;
  Json metadata = {{"general.architecture", name}, {"general.name", "made up"}};
  const auto add = [&](const char* key, Json value) {
    metadata[absl::StrCat(name, ".", key)] = std::move(value);
  };
  add("block_count", shape_.layers);
  add("context_length", shape_.context);
  add("embedding_length", shape_.hidden);
  add("feed_forward_length", shape_.intermediate);
  add("attention.head_count", shape_.heads);
  add("attention.head_count_kv", shape_.kv_heads);
  add("rope.freq_base", kRopeTheta);
  add("attention.layer_norm_rms_epsilon", kEpsilon);
  if (shape_.head_dim != 0) {
    add("attention.key_length", head_dim());
    add("attention.value_length", head_dim());
  }
  if (shape_.network == Network::kPhi3) {
    add("attention.sliding_window", shape_.window);
    add("rope.scaling.original_context_length",
        scales_rope() ? shape_.original_context : shape_.context);
    if (scales_rope()) add("rope.scaling.attn_factor", rope_magnitude());
  }
  if (name == "llama" || name == "phi3") add("rope.dimension_count", head_dim());
  if (name == "llama") add("vocab_size", shape_.vocab);
  return metadata;
}

}  // namespace npubank

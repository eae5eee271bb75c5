#include "npubank/lazy_tensor/formats/model/gguf_model.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/model/llama_names.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

absl::Status Invalid(const std::string& file, absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": metadata '", key, "' ", what));
}

// A number of the metadata as JSON, or null when it is absent or not a number.
Json NumberOf(const GgufValue* value) {
  if (value == nullptr) return nullptr;
  if (const auto* number = std::get_if<uint64_t>(&value->value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value->value)) return *number;
  if (const auto* number = std::get_if<double>(&value->value)) return *number;
  return nullptr;
}

// A value of the metadata as JSON; a list is a list, whatever is in it.
Json JsonOf(const GgufValue& value) {
  if (std::holds_alternative<GgufValue::Array>(value.value)) return Json::array();
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  if (const auto* truth = std::get_if<bool>(&value.value)) return *truth;
  return NumberOf(&value);
}

std::string TextOf(const GgufValue* value) {
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->value);
  return text == nullptr ? "" : *text;
}

const GgufTensor* FindTensor(const Gguf& file, absl::string_view name) {
  for (const GgufTensor& tensor : file.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Which key of config.json a metadata key stands for.
struct ConfigKey {
  const char* gguf;
  const char* config;
  bool needed;
};
constexpr ConfigKey kConfigKeys[] = {
    {"llama.embedding_length", "hidden_size", true},
    {"llama.feed_forward_length", "intermediate_size", true},
    {"llama.block_count", "num_hidden_layers", true},
    {"llama.attention.head_count", "num_attention_heads", true},
    {"llama.attention.head_count_kv", "num_key_value_heads", false},
    {"llama.attention.key_length", "head_dim", false},
    {"llama.context_length", "max_position_embeddings", true},
    {"llama.attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"llama.rope.freq_base", "rope_theta", false},
    {"llama.vocab_size", "vocab_size", false},
    {"tokenizer.ggml.bos_token_id", "bos_token_id", false},
    {"tokenizer.ggml.eos_token_id", "eos_token_id", false},
};

// The keys that begin with `prefix`.
absl::Status CheckMetadata(const NameLists& lists, const Gguf& file, const std::string& prefix,
                           const std::string& name, const std::string& what) {
  Json metadata = Json::object();
  for (auto at = file.metadata.lower_bound(prefix);
       at != file.metadata.end() && absl::StartsWith(at->first, prefix); ++at) {
    metadata[at->first] = JsonOf(at->second);
  }
  return CheckKeys(lists, metadata, absl::StrCat(name, ": metadata "), what);
}

absl::Status CheckArchitecture(const Gguf& file, const std::string& name) {
  const std::string architecture = TextOf(file.Find("general.architecture"));
  if (architecture != "llama") {
    return Invalid(name, "general.architecture",
                   absl::StrCat("is ", Quote(architecture), "; supported is 'llama'"));
  }
  return CheckMetadata(LlamaNames().metadata, file, "", name, "a llama network");
}

// rope_scaling as config.json has it; null when there is none.
absl::StatusOr<Json> ScalingJson(const Gguf& file, const std::string& name) {
  const std::string kind = TextOf(file.Find("llama.rope.scaling.type"));
  Json factor = NumberOf(file.Find("llama.rope.scaling.factor"));
  if (factor.is_null()) factor = NumberOf(file.Find("llama.rope.scale_linear"));
  if (kind == "linear" || (kind.empty() && !factor.is_null())) {
    return Json{{"rope_type", "linear"}, {"factor", factor}};
  }
  if (kind.empty() || kind == "none") return Json(nullptr);
  return Invalid(name, "llama.rope.scaling.type",
                 absl::StrCat("is ", Quote(kind), "; supported is 'linear'"));
}

// The metadata as a config.json, so that one reader checks both.
absl::StatusOr<Json> ConfigJson(const Gguf& file, const std::string& name) {
  Json config = {{"model_type", "llama"}};
  for (const ConfigKey& key : kConfigKeys) {
    const GgufValue* value = file.Find(key.gguf);
    Json number = NumberOf(value);
    if (value != nullptr && number.is_null()) return Invalid(name, key.gguf, "must be a number");
    if (value == nullptr && key.needed) return Invalid(name, key.gguf, "is missing");
    if (!number.is_null()) config[key.config] = std::move(number);
  }
  NPUBANK_ASSIGN_OR_RETURN(config["rope_scaling"], ScalingJson(file, name));
  if (!config.contains("vocab_size")) {
    const GgufTensor* embedding = FindTensor(file, "token_embd.weight");
    if (embedding == nullptr || embedding->shape.rank() != 2) {
      return Invalid(name, "llama.vocab_size", "is missing, and so is a 2-D token_embd.weight");
    }
    config["vocab_size"] = embedding->shape.dim(0);
  }
  config["tie_word_embeddings"] = FindTensor(file, "output.weight") == nullptr;
  return config;
}

// What the shared reader cannot know: these must be what the decoder assumes.
absl::Status CheckHeads(const Gguf& file, const std::string& name, int64_t head_dim) {
  for (const char* key : {"llama.rope.dimension_count", "llama.attention.value_length"}) {
    const Json value = NumberOf(file.Find(key));
    if (!value.is_null() && value != head_dim) {
      return Invalid(name, key, absl::StrCat("must be the head size ", head_dim));
    }
  }
  return absl::OkStatus();
}

absl::Status DivideFrequencies(const GgufTensor& factors, const Source& source,
                               ModelConfig& config) {
  std::vector<float>& frequencies = config.rope_frequencies;
  if (factors.format != GgufFormat(ElementType::kF32) ||
      factors.bytes != frequencies.size() * sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be F32[", frequencies.size(), "], one for each pair of a head"));
  }
  std::vector<uint8_t> raw(factors.bytes);
  NPUBANK_RETURN_IF_ERROR(source.Read(
      factors.offset, absl::MakeSpan(reinterpret_cast<std::byte*>(raw.data()), raw.size())));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    uint32_t bits = 0;
    for (size_t byte = 4; byte-- > 0;) bits = bits << 8 | raw[4 * i + byte];
    const float factor = std::bit_cast<float>(bits);
    if (!(factor >= 1e-6f && factor <= 1e6f)) {
      return absl::InvalidArgumentError(absl::StrCat("factor ", i, " is out of range"));
    }
    frequencies[i] /= factor;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> GgufModelConfig(const Gguf& file, const Source& source) {
  const std::string& name = source.name();
  NPUBANK_RETURN_IF_ERROR(CheckArchitecture(file, name));
  NPUBANK_ASSIGN_OR_RETURN(const Json json, ConfigJson(file, name));
  NPUBANK_ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(json.dump(), name));
  NPUBANK_RETURN_IF_ERROR(CheckHeads(file, name, config.head_dim));
  config.rope_interleaved = true;
  if (const GgufTensor* factors = FindTensor(file, "rope_freqs.weight")) {
    const absl::Status status = DivideFrequencies(*factors, source, config);
    if (!status.ok()) return Annotate(status, absl::StrCat(name, ": tensor 'rope_freqs.weight'"));
  }
  return config;
}

std::string HuggingFaceName(absl::string_view gguf_name) {
  static constexpr std::pair<const char*, const char*> kModelNames[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
  };
  static constexpr std::pair<const char*, const char*> kLayerNames[] = {
      {"attn_norm.weight", "input_layernorm.weight"},
      {"attn_q.weight", "self_attn.q_proj.weight"},
      {"attn_k.weight", "self_attn.k_proj.weight"},
      {"attn_v.weight", "self_attn.v_proj.weight"},
      {"attn_output.weight", "self_attn.o_proj.weight"},
      {"ffn_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_gate.weight", "mlp.gate_proj.weight"},
      {"ffn_up.weight", "mlp.up_proj.weight"},
      {"ffn_down.weight", "mlp.down_proj.weight"},
  };
  for (const auto& [from, to] : kModelNames) {
    if (gguf_name == from) return to;
  }
  absl::string_view rest = gguf_name;
  const size_t dot = rest.find('.', 4);
  int64_t layer = 0;
  if (absl::ConsumePrefix(&rest, "blk.") && dot != absl::string_view::npos &&
      absl::SimpleAtoi(rest.substr(0, dot - 4), &layer)) {
    for (const auto& [from, to] : kLayerNames) {
      if (rest.substr(dot - 3) == from) {
        return absl::StrCat("model.layers.", rest.substr(0, dot - 4), ".", to);
      }
    }
  }
  return std::string(gguf_name);
}

}  // namespace npubank

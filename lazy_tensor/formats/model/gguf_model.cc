#include "npubank/lazy_tensor/formats/model/gguf_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"

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

// Which key of config.json a metadata key stands for; '@' is the architecture.
struct ConfigKey {
  const char* gguf;
  const char* config;
  bool needed;
};
constexpr ConfigKey kConfigKeys[] = {
    {"@.embedding_length", "hidden_size", true},
    {"@.feed_forward_length", "intermediate_size", true},
    {"@.block_count", "num_hidden_layers", true},
    {"@.attention.head_count", "num_attention_heads", true},
    {"@.attention.head_count_kv", "num_key_value_heads", false},
    {"@.attention.key_length", "head_dim", false},
    {"@.attention.sliding_window", "sliding_window", false},
    {"@.context_length", "max_position_embeddings", true},
    {"@.attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"@.rope.freq_base", "rope_theta", false},
    {"@.vocab_size", "vocab_size", false},
    {"tokenizer.ggml.bos_token_id", "bos_token_id", false},
    {"tokenizer.ggml.eos_token_id", "eos_token_id", false},
};

// A network's own metadata, in the file of that name.
class Metadata {
 public:
  Metadata(const NetworkNames& network, const Gguf& file, const std::string& name)
      : network_(network), file_(file), name_(name) {}

  std::string Key(absl::string_view key) const {
    return absl::StrReplaceAll(key, {{"@", network_.architecture}});
  }
  absl::Status Wrong(absl::string_view key, absl::string_view what) const {
    return Invalid(name_, Key(key), what);
  }
  // Null when it is absent.
  absl::StatusOr<Json> Number(absl::string_view key) const {
    const GgufValue* value = file_.Find(Key(key));
    Json number = NumberOf(value);
    if (value != nullptr && number.is_null()) return Wrong(key, "must be a number");
    return number;
  }
  // Empty when it is absent.
  absl::StatusOr<std::string> Text(absl::string_view key) const {
    const GgufValue* value = file_.Find(Key(key));
    const bool is_text = value == nullptr || std::holds_alternative<std::string>(value->value);
    return is_text ? absl::StatusOr<std::string>(TextOf(value)) : Wrong(key, "must be a text");
  }

 private:
  const NetworkNames& network_;
  const Gguf& file_;
  const std::string& name_;
};

absl::StatusOr<const NetworkNames*> FindNetwork(const Gguf& file, const std::string& name) {
  const std::string architecture = TextOf(file.Find("general.architecture"));
  const NetworkNames* network = NetworkNames::FindArchitecture(architecture);
  if (network == nullptr) {
    std::vector<std::string> known;
    for (const NetworkNames* one : NetworkNames::All()) {
      if (one->architecture[0] != '\0') known.push_back(Quote(one->architecture));
    }
    return Invalid(
        name, "general.architecture",
        absl::StrCat("is ", Quote(architecture), "; supported are ", absl::StrJoin(known, ", ")));
  }
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata) metadata[key] = JsonOf(value);
  NPUBANK_RETURN_IF_ERROR(CheckKeys(network->metadata, metadata, absl::StrCat(name, ": metadata "),
                                    absl::StrCat("a ", network->network, " network"),
                                    network->architecture));
  return network;
}

// rope_scaling as config.json has it; null when there is none. Longrope comes as a tensor.
absl::StatusOr<Json> ScalingJson(const NetworkNames& network, const Metadata& metadata) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string kind, metadata.Text("@.rope.scaling.type"));
  NPUBANK_ASSIGN_OR_RETURN(Json factor, metadata.Number("@.rope.scaling.factor"));
  if (factor.is_null()) {
    NPUBANK_ASSIGN_OR_RETURN(factor, metadata.Number("@.rope.scale_linear"));
  }
  if (kind == "linear" || (kind.empty() && !factor.is_null())) {
    return Json{{"rope_type", "linear"}, {"factor", factor}};
  }
  if (kind.empty() || kind == "none" || (network.long_rope && kind == "longrope")) {
    return Json(nullptr);
  }
  return metadata.Wrong("@.rope.scaling.type",
                        absl::StrCat("is ", Quote(kind), "; supported is 'linear'"));
}

// The metadata as a config.json, so that one reader checks both.
absl::StatusOr<Json> ConfigJson(const NetworkNames& network, const Gguf& file,
                                const Metadata& metadata) {
  Json config = {{"model_type", network.network}};
  for (const ConfigKey& key : kConfigKeys) {
    NPUBANK_ASSIGN_OR_RETURN(Json number, metadata.Number(key.gguf));
    if (number.is_null() && key.needed) return metadata.Wrong(key.gguf, "is missing");
    if (!number.is_null()) config[key.config] = std::move(number);
  }
  if (config.value("sliding_window", Json()) == 0) config.erase("sliding_window");  // none
  NPUBANK_ASSIGN_OR_RETURN(config["rope_scaling"], ScalingJson(network, metadata));
  if (!config.contains("vocab_size")) {
    const GgufTensor* embedding = FindTensor(file, "token_embd.weight");
    if (embedding == nullptr || embedding->shape.rank() != 2) {
      return metadata.Wrong("@.vocab_size", "is missing, and so is a 2-D token_embd.weight");
    }
    config["vocab_size"] = embedding->shape.dim(0);
  }
  config["tie_word_embeddings"] = FindTensor(file, "output.weight") == nullptr;
  return config;
}

// What the shared reader cannot know: these must be what the decoder assumes.
absl::Status CheckHeads(const Metadata& metadata, int64_t head_dim) {
  for (const char* key : {"@.rope.dimension_count", "@.attention.value_length"}) {
    NPUBANK_ASSIGN_OR_RETURN(const Json value, metadata.Number(key));
    if (!value.is_null() && value != head_dim) {
      return metadata.Wrong(key, absl::StrCat("must be the head size ", head_dim));
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

// Longrope's magnitude, and the context that its short factors are for.
absl::Status ReadLongRope(const Metadata& metadata, ModelConfig& config) {
  NPUBANK_ASSIGN_OR_RETURN(const Json magnitude, metadata.Number("@.rope.scaling.attn_factor"));
  if (!magnitude.is_null()) config.rope_magnitude = magnitude.get<double>();
  if (!(config.rope_magnitude >= 1e-3 && config.rope_magnitude <= 1e3)) {
    return metadata.Wrong("@.rope.scaling.attn_factor", "must be from 1e-3 to 1e3");
  }
  NPUBANK_ASSIGN_OR_RETURN(const Json original,
                           metadata.Number("@.rope.scaling.original_context_length"));
  if (!original.is_number_integer() || original < 1) {
    return metadata.Wrong("@.rope.scaling.original_context_length",
                          "must be a number of at least 1 beside rope_factors_short.weight");
  }
  config.context_length =
      static_cast<int64_t>(std::min<uint64_t>(original.get<uint64_t>(), config.context_length));
  return absl::OkStatus();
}

// A tensor of divisors, which only a network that uses it may have.
absl::StatusOr<bool> DivideBy(const Gguf& file, const char* tensor, const Source& source,
                              ModelConfig& config) {
  const GgufTensor* factors = FindTensor(file, tensor);
  if (factors == nullptr) return false;
  const absl::Status status = DivideFrequencies(*factors, source, config);
  if (status.ok()) return true;
  return Annotate(status, absl::StrCat(source.name(), ": tensor '", tensor, "'"));
}

}  // namespace

absl::StatusOr<ModelConfig> GgufModelConfig(const Gguf& file, const Source& source) {
  const std::string& name = source.name();
  NPUBANK_ASSIGN_OR_RETURN(const NetworkNames* const network, FindNetwork(file, name));
  const Metadata metadata(*network, file, name);
  NPUBANK_ASSIGN_OR_RETURN(const Json json, ConfigJson(*network, file, metadata));
  NPUBANK_ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(json.dump(), name));
  NPUBANK_RETURN_IF_ERROR(CheckHeads(metadata, config.head_dim));
  config.rope_interleaved = network->gguf_interleaved;
  NPUBANK_RETURN_IF_ERROR(DivideBy(file, "rope_freqs.weight", source, config).status());
  if (!network->long_rope) return config;
  NPUBANK_ASSIGN_OR_RETURN(const bool long_rope,
                           DivideBy(file, "rope_factors_short.weight", source, config));
  if (long_rope) NPUBANK_RETURN_IF_ERROR(ReadLongRope(metadata, config));
  return config;
}

}  // namespace npubank

#include "npubank/lazy_tensor/formats/model/model_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/json_fields.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"
#include "npubank/lazy_tensor/formats/model/rope.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

// Which network it is, and that nothing makes it another one.
absl::StatusOr<const NetworkNames*> FindNetwork(const Json& root, JsonFields& fields) {
  if (fields.Get("model_type") == nullptr) fields.Fail("model_type", "is missing");
  const std::string model_type = fields.Text("model_type", "");
  const NetworkNames* names = NetworkNames::Find(model_type);
  if (names == nullptr) {
    const std::string known =
        absl::StrJoin(NetworkNames::All(), ", ", [](std::string* out, const NetworkNames* network) {
          absl::StrAppend(out, "'", network->network, "'");
        });
    fields.Fail("model_type", absl::StrCat("is ", Quote(model_type), "; supported are ", known));
  }
  NPUBANK_RETURN_IF_ERROR(fields.status());
  NPUBANK_RETURN_IF_ERROR(CheckKeys(names->config, root, absl::StrCat(fields.file(), ": "),
                                    absl::StrCat("a ", names->network, " network")));
  return names;
}

void ReadDimensions(const NetworkNames& names, const Json& root, JsonFields& fields,
                    ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, ModelConfig::kMaxVocab);
  config.hidden_size = fields.Int("hidden_size", 1, ModelConfig::kMaxDim);
  config.intermediate_size = fields.Int("intermediate_size", 1, ModelConfig::kMaxDim);
  config.num_layers = fields.Int("num_hidden_layers", 1, ModelConfig::kMaxLayers);
  config.num_heads = fields.Int("num_attention_heads", 1, ModelConfig::kMaxDim);
  config.num_kv_heads =
      fields.Int("num_key_value_heads", 1, ModelConfig::kMaxDim, config.num_heads);
  config.context_length = fields.Int("max_position_embeddings", 1, ModelConfig::kMaxContext);
  config.head_dim = fields.Int("head_dim", 1, ModelConfig::kMaxDim, 0);
  if (!fields.status().ok()) return;

  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_heads != 0) {
      fields.Fail("hidden_size", absl::StrCat("is ", config.hidden_size,
                                              ", not a multiple of num_attention_heads ",
                                              config.num_heads, ", and there is no head_dim"));
    }
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.head_dim % 2 != 0 || config.head_dim == 0) {
    fields.Fail("head_dim", absl::StrCat("is ", config.head_dim, ", but must be even"));
  }
  if (config.num_heads * config.head_dim > ModelConfig::kMaxDim) {
    fields.Fail("num_attention_heads",
                absl::StrCat("times head_dim is over ", ModelConfig::kMaxDim));
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Fail("num_key_value_heads",
                absl::StrCat("is ", config.num_kv_heads,
                             ", which does not divide num_attention_heads ", config.num_heads));
  }
  if (names.window) {
    const int64_t unsaid = root.contains("sliding_window") ? 0 : names.window_unsaid;
    config.sliding_window = fields.Int("sliding_window", 1, ModelConfig::kMaxContext, unsaid);
  }
}

// A divisor for each pair, within the context that the model was made for at first.
void ReadLongRope(JsonFields& rope, JsonFields& fields, ModelConfig& config, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kLongRope;
  const Json* divisors = rope.Get("short_factor");
  const auto pairs = static_cast<size_t>(config.head_dim / 2);
  if (divisors == nullptr || !divisors->is_array() || divisors->size() != pairs) {
    return rope.Fail("short_factor",
                     absl::StrCat("must be a list of ", pairs, " numbers, one for each pair"));
  }
  for (const Json& divisor : *divisors) {
    scaling.divisors.push_back(divisor.is_number() ? divisor.get<double>() : 0);
    if (!(scaling.divisors.back() >= 1e-6 && scaling.divisors.back() <= 1e6)) {
      return rope.Fail("short_factor", "has an element that is no number from 1e-6 to 1e6");
    }
  }
  const int64_t original =
      fields.Int("original_max_position_embeddings", 2, ModelConfig::kMaxContext);
  if (!fields.status().ok() || config.context_length <= original) return;
  const double longer = static_cast<double>(config.context_length) / static_cast<double>(original);
  config.rope_magnitude = std::sqrt(1 + std::log(longer) / std::log(static_cast<double>(original)));
  config.context_length = original;
}

RopeScaling ReadScaling(const NetworkNames& names, JsonFields& fields, JsonFields& root,
                        ModelConfig& config) {
  RopeScaling scaling;
  const std::string kind = fields.Text("rope_type", fields.Text("type", "default").c_str());
  if (names.long_rope && (kind == "longrope" || kind == "su")) {
    ReadLongRope(fields, root, config, scaling);
    return scaling;
  }
  if (kind == "default") {
    for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "short_factor"}) {
      if (fields.Get(key) == nullptr) continue;
      fields.Fail(
          key,
          "scales nothing without a 'rope_type' of 'linear' or 'llama3'; add that or remove it");
    }
    return scaling;
  }
  scaling.factor = fields.Number("factor", 1e-3, 1e6);
  if (kind == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (kind == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    scaling.low_freq_factor = fields.Number("low_freq_factor", 1e-3, 1e6);
    scaling.high_freq_factor = fields.Number("high_freq_factor", 1e-3, 1e6);
    scaling.original_context = static_cast<double>(
        fields.Int("original_max_position_embeddings", 1, ModelConfig::kMaxContext));
    if (scaling.low_freq_factor >= scaling.high_freq_factor) {
      fields.Fail("high_freq_factor", "must be larger than low_freq_factor");
    }
  } else {
    fields.Fail("rope_type",
                absl::StrCat("is ", Quote(kind), "; supported are 'linear' and 'llama3'",
                             names.long_rope ? " and 'longrope'" : ""));
  }
  return scaling;
}

void ReadRope(const NetworkNames& names, JsonFields& fields, ModelConfig& config) {
  double theta = fields.Number("rope_theta", 1, 1e12, 10000);
  double rotary_part = fields.Number("partial_rotary_factor", 0, 1, 1);
  RopeScaling scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* value = fields.Get(key);
    if (value == nullptr) continue;
    if (!value->is_object()) return fields.Fail(key, "must be an object");
    JsonFields rope(*value, absl::StrCat(fields.file(), ": ", key));
    rope.Adopt(CheckKeys(names.rope, *value, absl::StrCat(rope.file(), ": "), key));
    theta = rope.Number("rope_theta", 1, 1e12, theta);
    rotary_part = rope.Number("partial_rotary_factor", 0, 1, rotary_part);
    scaling = ReadScaling(names, rope, fields, config);
    fields.Adopt(rope.status());
  }
  if (rotary_part != 1) {
    fields.Fail("partial_rotary_factor", "is not 1; partial rotary dimensions are not supported");
  }
  if (fields.status().ok()) {
    config.rope_frequencies = RopeFrequencies(config.head_dim, theta, scaling);
  }
}

void ReadTokens(JsonFields& fields, ModelConfig& config) {
  const int64_t last = config.vocab_size - 1;
  config.bos_token = fields.Int("bos_token_id", 0, last, std::min<int64_t>(1, last));
  const Json* eos = fields.Get("eos_token_id");
  if (eos == nullptr) {
    if (last >= 2) config.eos_tokens = {2};
  } else if (eos->is_array()) {
    for (const Json& token : *eos) {
      config.eos_tokens.push_back(fields.IntOf(token, "eos_token_id", 0, last));
    }
  } else {
    config.eos_tokens = {fields.IntOf(*eos, "eos_token_id", 0, last)};
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json, const std::string& file) {
  NPUBANK_ASSIGN_OR_RETURN(const Json root, ParseJson(json, file));
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": must be a JSON object"));
  }
  JsonFields fields(root, file);
  ModelConfig config;
  NPUBANK_ASSIGN_OR_RETURN(const NetworkNames* const names, FindNetwork(root, fields));
  config.model_type = names->network;
  ReadDimensions(*names, root, fields, config);
  ReadRope(*names, fields, config);
  ReadTokens(fields, config);
  config.rms_norm_eps = fields.Number("rms_norm_eps", 1e-12, 1);
  config.tied_embeddings = fields.Bool("tie_word_embeddings", false);
  NPUBANK_RETURN_IF_ERROR(fields.status());
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigJsonBytes));
  return ParseModelConfig(text, path);
}

}  // namespace npubank

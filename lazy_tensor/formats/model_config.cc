#include "lazy_tensor/formats/model_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lazy_tensor/formats/json.h"
#include "lazy_tensor/formats/rope.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;

// The values of one JSON object by key. The first fault is kept and turns every later answer into
// the default, so that a reader can be written as a list of fields and checked once at its end.
class Fields {
 public:
  Fields(const Json& object, std::string file) : object_(object), file_(std::move(file)) {}

  const absl::Status& status() const { return status_; }
  const std::string& file() const { return file_; }

  // The value; null when absent or JSON null.
  const Json* Get(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  void Fail(const char* key, absl::string_view what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(file_, ": \"", key, "\" ", what));
  }

  // Takes over the fault of a nested object.
  void Adopt(const Fields& nested) {
    if (status_.ok()) status_ = nested.status();
  }

  int64_t Int(const char* key, int64_t min, int64_t max) {
    if (Get(key) == nullptr) Fail(key, "is missing");
    return Int(key, min, max, min);
  }
  int64_t Int(const char* key, int64_t min, int64_t max, int64_t absent) {
    const Json* value = Get(key);
    if (value == nullptr) return absent;
    return CheckedInt(*value, key, min, max);
  }

  int64_t CheckedInt(const Json& value, const char* key, int64_t min, int64_t max) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(max)
                          : value.is_number_integer();
    const int64_t number = fits ? value.get<int64_t>() : min - 1;
    if (fits && number >= min && number <= max) return number;
    Fail(key, absl::StrCat("must be a whole number from ", min, " to ", max));
    return min;
  }

  double Number(const char* key, double min, double max, double absent) {
    const Json* value = Get(key);
    if (value == nullptr) return absent;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (number >= min && number <= max) return number;
    Fail(key, absl::StrCat("must be a number from ", min, " to ", max));
    return absent;
  }
  double Number(const char* key, double min, double max) {
    if (Get(key) == nullptr) Fail(key, "is missing");
    return Number(key, min, max, min);
  }

  bool Bool(const char* key, bool absent) {
    const Json* value = Get(key);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) Fail(key, "must be true or false");
    return value->is_boolean() ? value->get<bool>() : absent;
  }

  std::string Text(const char* key, const char* absent) {
    const Json* value = Get(key);
    if (value == nullptr) return absent;
    if (!value->is_string()) Fail(key, "must be a string");
    return value->is_string() ? value->get<std::string>() : absent;
  }

 private:
  const Json& object_;
  std::string file_;
  absl::Status status_;
};

// What makes a network another one than the Llama decoder that is built from this config.
void CheckArchitecture(Fields& fields, ModelConfig& config) {
  if (fields.Get("model_type") == nullptr) fields.Fail("model_type", "is missing");
  config.model_type = fields.Text("model_type", "");
  if (config.model_type != "llama" && config.model_type != "mistral") {
    fields.Fail("model_type", absl::StrCat("is ", Quote(config.model_type),
                                           "; supported are \"llama\" and \"mistral\""));
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (fields.Bool(key, false)) fields.Fail(key, "is true; layers with biases are not supported");
  }
  const std::string activation = fields.Text("hidden_act", "silu");
  if (activation != "silu") {
    fields.Fail("hidden_act", absl::StrCat("is ", Quote(activation), "; supported is \"silu\""));
  }
}

void ReadDimensions(Fields& fields, ModelConfig& config) {
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
  if (config.model_type == "mistral") {
    const int64_t window =
        fields.Int("sliding_window", 1, ModelConfig::kMaxContext, ModelConfig::kMaxContext);
    config.context_length = std::min(config.context_length, window);
  }
}

RopeScaling ReadScaling(Fields& fields) {
  RopeScaling scaling;
  const std::string kind = fields.Text("rope_type", fields.Text("type", "default").c_str());
  if (kind == "default") return scaling;
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
                absl::StrCat("is ", Quote(kind), "; supported are \"linear\" and \"llama3\""));
  }
  return scaling;
}

void ReadRope(Fields& fields, ModelConfig& config) {
  double theta = fields.Number("rope_theta", 1, 1e12, 10000);
  double rotary_part = fields.Number("partial_rotary_factor", 0, 1, 1);
  RopeScaling scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* value = fields.Get(key);
    if (value == nullptr) continue;
    if (!value->is_object()) return fields.Fail(key, "must be an object");
    Fields rope(*value, absl::StrCat(fields.file(), ": ", key));
    theta = rope.Number("rope_theta", 1, 1e12, theta);
    rotary_part = rope.Number("partial_rotary_factor", 0, 1, rotary_part);
    scaling = ReadScaling(rope);
    fields.Adopt(rope);
  }
  if (rotary_part != 1) {
    fields.Fail("partial_rotary_factor", "is not 1; partial rotary dimensions are not supported");
  }
  if (fields.status().ok()) {
    config.rope_frequencies = RopeFrequencies(config.head_dim, theta, scaling);
  }
}

void ReadTokens(Fields& fields, ModelConfig& config) {
  const int64_t last = config.vocab_size - 1;
  config.bos_token = fields.Int("bos_token_id", 0, last, std::min<int64_t>(1, last));
  const Json* eos = fields.Get("eos_token_id");
  if (eos == nullptr) {
    if (last >= 2) config.eos_tokens = {2};
  } else if (eos->is_array()) {
    for (const Json& token : *eos) {
      config.eos_tokens.push_back(fields.CheckedInt(token, "eos_token_id", 0, last));
    }
  } else {
    config.eos_tokens = {fields.CheckedInt(*eos, "eos_token_id", 0, last)};
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json, const std::string& file) {
  NPUBANK_ASSIGN_OR_RETURN(const Json root, ParseJson(json, file));
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": must be a JSON object"));
  }
  Fields fields(root, file);
  ModelConfig config;
  CheckArchitecture(fields, config);
  ReadDimensions(fields, config);
  ReadRope(fields, config);
  ReadTokens(fields, config);
  config.rms_norm_eps = fields.Number("rms_norm_eps", 1e-12, 1);
  config.tied_embeddings = fields.Bool("tie_word_embeddings", false);
  NPUBANK_RETURN_IF_ERROR(fields.status());
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  return ParseModelConfig(text, path);
}

}  // namespace npubank

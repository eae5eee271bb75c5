// Whatever config.json says, a config or a quantisation that is accepted has every number in bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/lazy_tensor/formats/quantization.h"

namespace {

void CheckQuantization(absl::string_view json) {
  using npubank::Quantization;
  const auto found = npubank::ParseQuantization(json, "fuzz");
  if (!found.ok() || !found->has_value()) return;
  const Quantization& quantization = **found;
  if (quantization.bits != 4 && quantization.bits != 8) abort();
  if (quantization.bits == 8 && quantization.method == Quantization::Method::kAwq) abort();
  if (quantization.group_size != Quantization::kWholeColumn &&
      (quantization.group_size < 1 || quantization.group_size > 1 << 20)) {
    abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using npubank::ModelConfig;
  const absl::string_view json(reinterpret_cast<const char*>(data), size);
  CheckQuantization(json);
  const auto config = npubank::ParseModelConfig(json, "fuzz");
  if (!config.ok()) return 0;
  auto outside = [](int64_t value, int64_t max) { return value < 1 || value > max; };
  if (outside(config->vocab_size, ModelConfig::kMaxVocab) ||
      outside(config->hidden_size, ModelConfig::kMaxDim) ||
      outside(config->intermediate_size, ModelConfig::kMaxDim) ||
      outside(config->num_layers, ModelConfig::kMaxLayers) ||
      outside(config->context_length, ModelConfig::kMaxContext) ||
      outside(config->head_dim, ModelConfig::kMaxDim) ||
      outside(config->num_heads, ModelConfig::kMaxDim / config->head_dim) ||
      outside(config->num_kv_heads, config->num_heads)) {
    abort();
  }
  if (config->rope_frequencies.size() * 2 != static_cast<size_t>(config->head_dim)) abort();
  for (const int64_t token : config->eos_tokens) {
    if (token < 0 || token >= config->vocab_size) abort();
  }
  return 0;
}

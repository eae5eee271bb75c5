// Whatever config.json says, a config that is accepted has every dimension in bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using npubank::ModelConfig;
  const auto config = npubank::ParseModelConfig(
      absl::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
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

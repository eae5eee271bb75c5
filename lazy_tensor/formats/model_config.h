// ModelConfig: the shape of a Llama-family decoder, from config.json (or, later, GGUF metadata).
//
//   NPUBANK_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig("model/config.json"));
//
// Errors: NotFound when the file is missing; InvalidArgument naming the file and the key for a missing,
// mistyped or out-of-range value, an architecture that is not of the Llama family, or a rope scaling that
// is not understood. Every field is bounded when this returns: products of dimensions cannot overflow.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_CONFIG_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct ModelConfig {
  std::string model_type;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t context_length = 0;  // max_position_embeddings
  double rms_norm_eps = 1e-5;
  bool tied_embeddings = false;
  // Interleaved pairs (2i, 2i+1), as in Meta's and GGUF's row order; otherwise rotate-half (i, i + d/2).
  bool rope_interleaved = false;
  // Radians per position for each of the head_dim / 2 pairs; rope scaling already applied.
  std::vector<float> rope_frequencies;
  int64_t bos_token = 1;
  std::vector<int64_t> eos_tokens;
};

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json, const std::string& file);
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_CONFIG_H_

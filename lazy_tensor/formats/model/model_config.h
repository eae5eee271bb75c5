// ModelConfig: the shape of a decoder, from config.json or GGUF metadata.
//
//   NPUBANK_ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig("model/config.json"));
//
// Accepted: the model types of networks.h. Not accepted, with a message: other model types, keys that change the network and
// keys that nobody knows (a network's lists have the others), rope scaling other than "linear", "llama3" and, where the
// network has it, "longrope", or without a type, partial rotary dimensions. A context under longrope ends where its
// original one does: the factors for longer ones are not used. Keys are those of
// Hugging Face transformers, with its defaults: num_key_value_heads = num_attention_heads, head_dim
// = hidden_size / num_attention_heads, rope_theta = 10000, tie_word_embeddings = false,
// bos_token_id = 1, eos_token_id = 2; null means absent. Only a Mistral's sliding_window is 4096
// where the key is not there, and none where it is null. The rope keys may also stand in
// "rope_parameters", where newer versions of the library write them.
//
// Errors: NotFound when the file is missing; InvalidArgument naming the file and the key for a
// missing, mistyped or out-of-range value. Every field is bounded when this returns (the kMax
// constants), so that products of dimensions cannot overflow. Threads: values and pure functions.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_MODEL_CONFIG_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct ModelConfig {
  static constexpr int64_t kMaxVocab = int64_t{1} << 24;
  static constexpr int64_t kMaxDim = int64_t{1} << 20;  // hidden, intermediate, heads x head_dim
  static constexpr int64_t kMaxLayers = 1024;
  static constexpr int64_t kMaxContext = int64_t{1} << 24;

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
  // Interleaved pairs (2i, 2i+1), as in Meta's and GGUF's row order; otherwise rotate-half (i, i +
  // d/2).
  bool rope_interleaved = false;
  // Radians per position for each of the head_dim / 2 pairs; rope scaling already applied.
  std::vector<float> rope_frequencies;
  // Of queries and keys after they are rotated, as longrope has it.
  double rope_magnitude = 1;
  // How many positions each one sees, itself the last of them; 0: all up to it.
  int64_t sliding_window = 0;
  int64_t bos_token = 1;
  std::vector<int64_t> eos_tokens;
};

// `file` appears in messages only.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json, const std::string& file);
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_MODEL_CONFIG_H_

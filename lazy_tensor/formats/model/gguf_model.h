// A Llama-family model inside a GGUF file, in the words of a Hugging Face checkpoint.
//
//   NPUBANK_ASSIGN_OR_RETURN(ModelConfig config, GgufModelConfig(file, *source));
//   HuggingFaceName("blk.3.attn_q.weight")   // "model.layers.3.self_attn.q_proj.weight"
//
// Accepted: general.architecture "llama", with the keys that llama_names.h lists. Keys and names are those that
// llama.cpp writes (ggml docs/gguf.md; gguf-py/gguf/constants.py). Its q and k rows are in Meta's
// interleaved rotary order, so rope_interleaved is true. Llama 3's rope scaling comes as a tensor
// of divisors, rope_freqs.weight, already applied to rope_frequencies here. Errors: InvalidArgument
// naming the file and the key, as in model_config.h. Threads: pure functions.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_GGUF_MODEL_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_GGUF_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

absl::StatusOr<ModelConfig> GgufModelConfig(const Gguf& file, const Source& source);

// The tensor's name in a Hugging Face checkpoint; a name that has no such counterpart stays as it
// is.
std::string HuggingFaceName(absl::string_view gguf_name);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_GGUF_MODEL_H_

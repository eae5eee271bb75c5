// A model inside a GGUF file, in the words of a Hugging Face checkpoint.
//
//   NPUBANK_ASSIGN_OR_RETURN(ModelConfig config, GgufModelConfig(file, *source));
//
// Accepted: the architectures of networks.h, with the keys that their lists have. Keys and names are those that
// llama.cpp writes (ggml docs/gguf.md; gguf-py/gguf/constants.py). A llama's q and k rows are in Meta's
// interleaved rotary order, so rope_interleaved is true; the others' are as in a folder. Llama 3's rope scaling comes
// as a tensor of divisors, rope_freqs.weight, and longrope's as rope_factors_short.weight; either is already applied to
// rope_frequencies here. Errors: InvalidArgument naming the file and the key, as in model_config.h. Threads: pure.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_GGUF_MODEL_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_GGUF_MODEL_H_

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

absl::StatusOr<ModelConfig> GgufModelConfig(const Gguf& file, const Source& source);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_GGUF_MODEL_H_

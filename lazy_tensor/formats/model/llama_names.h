// LlamaNames: what the files of a Llama-family model may say (network_names.h).
//
// The lists are what published models carry (Llama 1 to 3.2, TinyLlama, SmolLM2, Mistral; GGUF files that
// llama.cpp's converters wrote), what transformers writes of any model, and what would make another network.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_LLAMA_NAMES_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_LLAMA_NAMES_H_

#include "npubank/lazy_tensor/formats/model/network_names.h"

namespace npubank {

const NetworkNames& LlamaNames();
// The same network with a sliding window.
const NetworkNames& MistralNames();
// The keys of rope_scaling and rope_parameters.
const NameLists& RopeNames();

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_LLAMA_NAMES_H_

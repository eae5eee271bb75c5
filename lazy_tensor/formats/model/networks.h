// The networks that are supported, by their names in files (network_names.h). A new one is a function here, its lists in a
// file of their own, and a line in NetworkNames::All.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORKS_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORKS_H_

#include "npubank/lazy_tensor/formats/model/network_names.h"

namespace npubank {

const NetworkNames& LlamaNames();
const NetworkNames& MistralNames();  // Llama's with a sliding window
const NetworkNames& Qwen2Names();
const NetworkNames& Qwen3Names();
const NetworkNames& Phi3Names();

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_NETWORKS_H_

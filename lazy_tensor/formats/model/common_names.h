// CommonNames: what the files of every network may say, which a network's own lists come before (network_names.h).
//
//   static const NetworkNames names = WithCommonNames({.network = "qwen2", ..., .used = {kBiases, TensorsApart()}});
//
// The lists are what transformers writes of any model, what llama.cpp's converters write into any file, and what would
// make another network.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_MODEL_COMMON_NAMES_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_MODEL_COMMON_NAMES_H_

#include "absl/types/span.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"

namespace npubank {

// Each list goes on with the common one.
NetworkNames WithCommonNames(NetworkNames own);
// Queries, keys, values, gate and up where each is a tensor of its own.
absl::Span<const TensorName> TensorsApart();

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_MODEL_COMMON_NAMES_H_

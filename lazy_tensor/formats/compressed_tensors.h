// Compressed tensors: integer weights of models that quant_method "compressed-tensors" names, in the parts
// that are stored.
//
//   ReadCompressedTensors(fields, settings, quantization);       // of ParseQuantization
//   NPUBANK_ASSIGN_OR_RETURN(StoredWeight weight,
//                            CompressedWeight(quantization, "model.layers.0.mlp.up_proj", *index));
//
// A layer of K inputs and N outputs has STEM.weight_scale, F32, F16 or BF16 [N, G], one for each output (G = 1,
// strategy "channel") or each group of its inputs ("group"), and means weight[n, k] = q[n, k] * scale[n, k / g].
//   "int-quantized"    STEM.weight I8 [N, K]: planes
//   "pack-quantized"   STEM.weight_packed I32 [N, K b / 32], numbers of b = 8 or 4 bits, the lowest first, each
//                      2^(b-1) too large: rows of words. STEM.weight_shape I64 [2] says [N, K].
//
// Not accepted, with a message: other formats, quantised activations or caches, numbers that are no integers or
// have zero points, scales of whole tensors or blocks, groups in the order of activations, schemes that differ
// between layers, rows that are no whole words. Which layers are quantised is taken from what is stored.
//
// Private to the formats room. Threads: pure functions. Cost: no weight is read, only weight_shape.
// Errors: InvalidArgument naming the file and key, or the tensor; whatever the index returns.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_COMPRESSED_TENSORS_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_COMPRESSED_TENSORS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/formats/json_fields.h"
#include "npubank/lazy_tensor/formats/quantization.h"
#include "npubank/lazy_tensor/formats/stored_weight.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

// `settings` is the object that `fields` reads. Faults are kept there.
void ReadCompressedTensors(JsonFields& fields, const nlohmann::json& settings,
                           Quantization& quantization);

absl::StatusOr<StoredWeight> CompressedWeight(const Quantization& quantization,
                                              const std::string& stem, const SourceIndex& index);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_COMPRESSED_TENSORS_H_

// Quantization: integer weights of checkpoints in safetensors, in the parts that are stored: GPTQ, AWQ and
// compressed-tensors (compressed_tensors.h).
//
//   NPUBANK_ASSIGN_OR_RETURN(std::optional<Quantization> how, ReadQuantization("m/config.json"));
//   NPUBANK_ASSIGN_OR_RETURN(StoredWeight weight,
//                            QuantizedWeight(*how, "model.layers.0.mlp.up_proj", *index));
//
// GPTQ and AWQ store a linear layer of K inputs and N outputs as STEM.qweight, STEM.qzeros and
// STEM.scales with G = K / group_size rows of scales, and mean
//   weight[n, k] = (q[k, n] - zero[g, n]) * scale[g, n], where g is the group of input k: k / group_size.
// GPTQ (AutoGPTQ, GPTQModel) of four or eight bits: qweight I32[K/8, N] or I32[K/4, N], qzeros I32[G, N/8] or
// I32[G, N/4] one too small unless checkpoint_format is "gptq_v2", and g_idx I32[K], the group of each input.
// Quantised in the order of activations (desc_act) the groups are any, of group_size inputs each. AWQ (AutoAWQ,
// version "gemm"): four bits, qweight I32[K, N/8] and qzeros I32[G, N/8], both with their columns interleaved.
//
// A g_idx that is k / group_size is not a part of the weight; any other is its last one, as it is stored: a row
// takes the software NPU 1.6 times as long, many rows as long as groups in order (matmul_benchmark). Inputs put
// in the order of their groups by the recipe would save that, but read, write and hold every stored byte anew.
//
// Not accepted, with a message: other methods and versions, other numbers of bits, settings for
// single modules ("dynamic"), keys that nobody knows, a g_idx with groups that are not there or of unequal
// sizes. Which modules are quantised (modules_to_not_convert, lm_head) is taken from what is stored.
//
// Threads: pure functions. Cost: no weight is read, only g_idx.
// Errors: InvalidArgument naming the file and key, or the tensor; whatever the index returns.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_QUANTIZATION_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_QUANTIZATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/stored_weight.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

struct Quantization {
  // The last two are compressed-tensors' "int-quantized" and "pack-quantized".
  enum class Method { kGptq, kAwq, kInt8, kPackedRows };
  static constexpr int64_t kWholeColumn = -1;

  Method method = Method::kGptq;
  int64_t group_size = kWholeColumn;  // inputs that share a scale
  bool zeros_one_too_small = false;   // version 1 of GPTQ's format
  int bits = 4;                       // of a number
};

// quantization_config of a config.json; nullopt when it has none. `file` appears in messages only.
absl::StatusOr<std::optional<Quantization>> ParseQuantization(absl::string_view json,
                                                              const std::string& file);
absl::StatusOr<std::optional<Quantization>> ReadQuantization(const std::string& path);

// The name of the weight that a stored tensor is a part of; the tensor's own where it is none.
std::string WeightOfPart(const Quantization& quantization, absl::string_view name);

// The weight of a layer in its stored tensors.
absl::StatusOr<StoredWeight> QuantizedWeight(const Quantization& quantization,
                                             const std::string& stem, const SourceIndex& index);

// Whether `inputs` are as many groups as the tensor of scales, `name`, has.
absl::Status CheckGroups(const Quantization& quantization, const std::string& name, int64_t inputs,
                         int64_t groups);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_QUANTIZATION_H_

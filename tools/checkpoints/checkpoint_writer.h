// Checkpoint writer: a model of any network, size and stored format, made of numbers that depend on
// the seed only, laid out as the programs lay files out that people get models from.
//
//   CheckpointShape shape;                    // about 110 M parameters, BF16
//   shape.format = CheckpointFormat::kAwq;
//   NPUBANK_ASSIGN_OR_RETURN(std::string model, WriteCheckpoint(shape, "tiny"));   // "tiny"
//
// Safetensors formats write DIR/model.safetensors, or several files and their index, and
// DIR/config.json; GGUF ones DIR/model.gguf. Data in a safetensors file begins where its
// header ends, at a multiple of 8 and of nothing more; `padded` makes that a multiple of
// 64, as few files have it. Order and types: stored_layout.h; names: made_up_network.h.
//
// Weights are near normal with deviation 0.02, norms near 1; quantised ones have any numbers, under scales
// that give them that deviation. The same shape and seed give the same bytes on every machine, and nothing
// is held in memory but a buffer of a few hundred KiB. The folder is made if needed (its parent must
// exist). Each file is written under a temporary name and renamed when complete, config.json last:
// a folder that has it is whole. Errors: InvalidArgument for a shape that no model, or no block of the
// format, can have; the system's error, naming the file, when it cannot be written (a full disk leaves no
// partial file).
#ifndef NPUBANK_TOOLS_CHECKPOINTS_CHECKPOINT_WRITER_H_
#define NPUBANK_TOOLS_CHECKPOINTS_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/element_type.h"

namespace npubank {

enum class CheckpointFormat {
  kSafetensors,
  kGptq,
  kGptqActOrder,  // desc_act: a layer's groups in an order of their own
  kGptq8,         // of eight bits
  kAwq,
  kInt8,      // compressed-tensors, "int-quantized": a scale for each output
  kPackInt8,  // "pack-quantized": words of four numbers, scales as above
  kPackInt4,  // words of eight, a scale for each group
  kGgufQ4_0,  // from here on GGUF
  kGgufQ4_K,
  kGgufQ6_K,
  kGgufQ8_0,
  kGgufF32,
};
// "safetensors", "gptq", "gptq-act-order", "gptq-8bit", "awq", "int8", "pack-int8", "pack-int4", "gguf-q4_0", "gguf-q4_k", "gguf-q6_k", "gguf-q8_0",
// "gguf-f32".
std::optional<CheckpointFormat> CheckpointFormatFromName(absl::string_view name);

// Mistral's GGUF files are llama's.
enum class CheckpointNetwork { kLlama, kMistral, kQwen2, kQwen3, kPhi3 };
// "llama", "mistral", "qwen2", "qwen3", "phi3".
std::optional<CheckpointNetwork> CheckpointNetworkFromName(absl::string_view name);

struct CheckpointShape {
  CheckpointNetwork network = CheckpointNetwork::kLlama;
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 4;
  int64_t intermediate = 2048;
  int64_t vocab = 32000;
  int64_t context = 1024;
  int64_t head_dim = 0;          // 0: hidden / heads
  int64_t window = 0;            // of the networks that have a sliding window; 0: none
  int64_t original_context = 0;  // of a Llama or Phi-3 that was made for a shorter one; 0: the same
  uint64_t seed = 1;
  bool tied = false;                         // no lm_head.weight: the embedding serves as head
  CheckpointFormat format = CheckpointFormat::kSafetensors;
  ElementType element = ElementType::kBF16;  // of kSafetensors; or F32, F16
  bool padded = false;
  int64_t shards = 1;                        // files of safetensors that the tensors are spread over
};

// What names the model to Checkpoint::Open: the folder, or the GGUF file in it.
absl::StatusOr<std::string> WriteCheckpoint(const CheckpointShape& shape, const std::string& folder);

// How many numbers such a model has; InvalidArgument as above.
absl::StatusOr<int64_t> CountParameters(const CheckpointShape& shape);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_CHECKPOINTS_CHECKPOINT_WRITER_H_

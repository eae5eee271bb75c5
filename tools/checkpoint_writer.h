// Checkpoint writer: a Llama-shaped model of any size, made of numbers that depend on the seed
// only.
//
//   CheckpointShape shape;                    // about 110 M parameters, BF16
//   shape.layers = 2;
//   NPUBANK_RETURN_IF_ERROR(WriteCheckpoint(shape, "tiny"));   // tiny/config.json,
//   model.safetensors
//
// Weights are near normal with deviation 0.02, norms near 1. Each number is a hash of seed, tensor
// and position, so the same shape and seed give the same bytes on every machine, and nothing is
// held in memory but a buffer of a few hundred KiB. The folder is made if needed (its parent must
// exist). Each file is written under a temporary name and renamed when complete, config.json last:
// a folder that has it is whole. Errors: InvalidArgument for a shape that no model can have; the
// system's error, naming the file, when it cannot be written (a full disk leaves no partial
// model.safetensors).
#ifndef NPUBANK_TOOLS_CHECKPOINT_WRITER_H_
#define NPUBANK_TOOLS_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/element_type.h"

namespace npubank {

struct CheckpointShape {
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 4;
  int64_t intermediate = 2048;
  int64_t vocab = 32000;
  int64_t context = 1024;
  uint64_t seed = 1;
  bool tied = false;                         // no lm_head.weight: the embedding serves as head
  ElementType element = ElementType::kBF16;  // or F32, F16
};

absl::Status WriteCheckpoint(const CheckpointShape& shape, const std::string& folder);

// How many numbers such a model has; InvalidArgument as above.
absl::StatusOr<int64_t> CountParameters(const CheckpointShape& shape);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_CHECKPOINT_WRITER_H_

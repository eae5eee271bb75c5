// StoredLayout: the tensors of a made-up model as the writers of a format store them: names, types, order.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<LaidOutTensor> tensors, StoredLayout(shape));
//
// Safetensors: as the library of that name orders them, by the size of an element, largest first, then by
// name. GGUF: in the order of the model's own names, layer by layer, norms in F32, as llama.cpp's converter
// writes them. GPTQ and AWQ: groups of 128 (whole columns where layers are no multiple of that), head and embedding in F16.
// compressed-tensors: scales in BF16, for each output, of four-bit numbers for groups as above; head and
// embedding in BF16.
// Q4_K is the mix that llama.cpp calls Q4_K_M: the head, and half of the layers' ffn_down and attn_v, in Q6_K.
// Errors: InvalidArgument for a shape that no model, or no block of the format, can have. Threads: pure.
#ifndef NPUBANK_TOOLS_CHECKPOINTS_STORED_LAYOUT_H_
#define NPUBANK_TOOLS_CHECKPOINTS_STORED_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/tools/checkpoints/checkpoint_writer.h"

namespace npubank {

struct LaidOutTensor {
  // What its bytes are made of.
  enum class Content { kNearZero, kNearOne, kWords, kScales, kZeroPoints, kGroups, kBytes, kShape, kBlocks, kDivisors };
  std::string name;
  TensorType type;  // of blocks: of their numbers, F32
  Content content = Content::kNearZero;
  std::optional<kernels::BlockFormat> blocks = std::nullopt;
  int64_t group_size = 0;             // kGroups
  int levels = 16;                    // of the numbers that kScales are for
  std::vector<int64_t> dims = {};     // kShape: what its numbers say

  uint64_t bytes() const;
};

absl::StatusOr<std::vector<LaidOutTensor>> StoredLayout(const CheckpointShape& shape);
// Inputs that share a scale in GPTQ and AWQ layers; nullopt: all of a layer's.
std::optional<int64_t> GroupSize(const CheckpointShape& shape);
bool IsGptq(CheckpointFormat format);
bool IsCompressed(CheckpointFormat format);  // compressed-tensors
bool IsGguf(CheckpointFormat format);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_CHECKPOINTS_STORED_LAYOUT_H_

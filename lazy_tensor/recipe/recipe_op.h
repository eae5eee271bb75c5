// RecipeOp: what one node of a recipe does, apart from what it is done to: its number in files, its
// words, and what it adds to the digest. Recipe (recipe.h) makes nodes of them, the codec
// (recipe_codec.h) writes and reads them.
//
//   OperationDigest(PermuteOp{{1, 0}}, type, {input.digest()});
//   DescribeOperation(PermuteOp{{1, 0}}, type);                     // "permute(1,0)"
//
// Threads: values and pure functions.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_OP_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_OP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/kernels/block_planes.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {

// Numbers of the operations in files. Never reuse one.
enum class RecipeOperation : uint16_t {
  kConstant = 1,
  kConcat = 2,
  kSlice = 3,
  kReshape = 4,
  kPermute = 5,
  kConvert = 6,
  kSplat = 7,
  kUnpack = 8,
  kGather = 9,
  kShift = 10,
  kUnpackNibbles = 11,
  kDequantizeBlocks = 12,
  kCopyBlockPlane = 13,
  // From here on: operations that an embedder registers. None can be registered yet, so a reader
  // refuses them by number.
  kFirstOfEmbedders = 0x8000,
};

struct ConstantOp {
  std::shared_ptr<const SourceHold> hold;  // null while the recipe is only described
  uint64_t offset = 0;
  std::string name;  // the tensor's name in its checkpoint; not part of the digest
};
struct ConcatOp {
  int axis = 0;
};
struct SliceOp {
  std::vector<int64_t> start;  // the extent is the node's own shape; steps are 1
};
struct ReshapeOp {};
struct PermuteOp {
  std::vector<int> order;  // output axis i is input axis order[i]
};
struct ConvertOp {};  // to the node's own element type
// The operations that compute. Their element type is the node's own.
struct SplatOp {
  uint64_t bits = 0;  // of every element, in the low bits
};
struct UnpackOp {};  // inputs: weights, scale, and sometimes a zero point
struct GatherOp {};  // inputs: indices, table: a code book, or rows
struct ShiftOp {};   // flips the highest bit: U8 <-> I8 by 128, U4 <-> I4 by 8
// How small integers lie in int32 words (kernels/packing.h has the pictures).
enum class NibbleLayout : uint8_t {
  kRows = 1,            // GPTQ qweight: I32[K/8, N] -> U4[K, N]
  kColumns = 2,         // GPTQ version 2 qzeros: I32[..., N/8] -> U4[..., N], lowest nibble first
  kColumnsPlusOne = 3,  // GPTQ version 1 qzeros: the same, each stored one too small
  kColumnsAwq = 4,      // AWQ qweight and qzeros: I32[..., N/8] -> U4[..., N]
  kBytes = 5,           // eight-bit weight_packed, and qzeros of version 2: I32[..., N/4] -> U8[..., N],
                        // lowest byte first
  kBytesPlusOne = 6,    // eight-bit GPTQ version 1 qzeros: the same, each stored one too small
  kByteRows = 7,        // eight-bit GPTQ qweight: I32[K/4, N] -> U8[K, N]
};
constexpr int NumbersInWord(NibbleLayout layout) { return layout >= NibbleLayout::kBytes ? 4 : 8; }
// Whether a word's numbers are of one column.
constexpr bool HoldsRows(NibbleLayout layout) {
  return layout == NibbleLayout::kRows || layout == NibbleLayout::kByteRows;
}
struct UnpackNibblesOp {
  NibbleLayout layout = NibbleLayout::kRows;
};
struct DequantizeBlocksOp {
  kernels::BlockFormat format = kernels::BlockFormat::kQ4_0;
};
struct CopyBlockPlaneOp {
  kernels::BlockFormat format = kernels::BlockFormat::kQ4_0;
  kernels::BlockPlane plane = kernels::BlockPlane::kNumbers;
};
using RecipeOp =
    std::variant<ConstantOp, ConcatOp, SliceOp, ReshapeOp, PermuteOp, ConvertOp, SplatOp, UnpackOp,
                 GatherOp, ShiftOp, UnpackNibblesOp, DequantizeBlocksOp, CopyBlockPlaneOp>;

RecipeOperation NumberOf(const RecipeOp& op);

// The digest of a leaf: which bytes of which source, read as what.
Digest ConstantDigest(const Digest& source_identity, uint64_t offset, const TensorType& type);
// The digest of any other node of type `type` over inputs with these digests.
Digest OperationDigest(const RecipeOp& op, const TensorType& type, absl::Span<const Digest> inputs);

// What is checked beside a digest: the samples of every source below a node (sources/file_identity.h).
// Equal digests with other stamps were made from other files.
Digest ConstantStamp(const Digest& source_samples);
Digest OperationStamp(absl::Span<const Digest> inputs);

// The node's description, without its inputs.
std::string DescribeOperation(const RecipeOp& op, const TensorType& type);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_OP_H_

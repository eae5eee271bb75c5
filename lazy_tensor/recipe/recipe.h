// Recipe: the immutable DAG of operations that produces a weight from source bytes: what is behind a
// LazyTensor (lazy_tensor.h), which is how weights are built.
//
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr stored, Recipe::Constant(file, 4096, type, "lm_head"));
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr transposed, Recipe::Permute(stored, {1, 0}));
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr half, Recipe::Convert(transposed, ElementType::kF16));
//   half->type();       // F16[...]: inferred when made, no byte is read
//   half->digest();     // the same in every process for the same file and chain
//   half->Describe();   // "lm_head BF16[32000,768] -> permute(1,0) -> convert(F16)"
//
// Ownership: shared and immutable, so one sub-recipe can serve many. Threads: any.
// An operation that changes nothing (a Convert to the same type, a Permute in order, a Reshape to the
// same dims, a Slice of everything, a Concat of one) returns its input, so that it has its input's
// digest. A Permute of a Permute becomes one, or none where the two cancel out, as where a format
// stores matrices transposed and a network wants them so. Errors: each maker returns InvalidArgument
// naming the operation and the types that do not fit. Depth is at most kMaxDepth, so that walking and
// dropping a recipe cannot exhaust the stack; one element is made from at most kMaxOperands elements of
// leaves, so that an Unpack whose scale is an Unpack whose scale ... cannot take forever to evaluate.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/kernels/block_planes.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/recipe/recipe_op.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class Recipe;
using RecipePtr = std::shared_ptr<const Recipe>;

class Recipe {
 public:
  static constexpr int kMaxDepth = 256;
  static constexpr int64_t kMaxOperands = 1024;

  static absl::StatusOr<RecipePtr> Constant(std::shared_ptr<Source> source, uint64_t offset,
                                            TensorType type, std::string name);
  static absl::StatusOr<RecipePtr> Concat(std::vector<RecipePtr> inputs, int axis);
  static absl::StatusOr<RecipePtr> Slice(RecipePtr input, absl::Span<const int64_t> start,
                                         absl::Span<const int64_t> size);
  static absl::StatusOr<RecipePtr> Reshape(RecipePtr input, absl::Span<const int64_t> dims);
  static absl::StatusOr<RecipePtr> Permute(RecipePtr input, absl::Span<const int> order);
  static absl::StatusOr<RecipePtr> Convert(RecipePtr input, ElementType to);

  // Every element has the bits `bits` (its low BitWidth bits; the others must be zero).
  static absl::StatusOr<RecipePtr> Splat(TensorType type, uint64_t bits);
  // (weight - zero) * scale in F32, then to `to` (kernels/dequantize.h has the rules). The scale
  // has the weights' rank, and each of its dims divides the weights': [1, 1] or a scalar is per
  // tensor, [N, 1] per channel, [N, K / 128] a group of 128 along the last axis. `zero` is null or
  // shaped like the scale, or has one element. Weights I4 U4 NF4 I8 U8 I16 U16 F8 F16 BF16 F32;
  // scale F32 F16 BF16; zero any number.
  static absl::StatusOr<RecipePtr> Unpack(RecipePtr weights, RecipePtr scale, RecipePtr zero,
                                          ElementType to);
  // table[index]. A code book: indices U4 or U8, the table a vector of at least 16 or 256 elements. Or rows:
  // indices I32[K], the table [G, ...], which makes [K, ...]; evaluating one that is not below G is
  // InvalidArgument.
  static absl::StatusOr<RecipePtr> Gather(RecipePtr indices, RecipePtr table);
  // U8 -> I8 or back by 128, U4 -> I4 or back by 8. Shift the zero point too and products stay the
  // same.
  static absl::StatusOr<RecipePtr> Shift(RecipePtr input);
  // Small weights out of I32 words, as U4 or U8.
  static absl::StatusOr<RecipePtr> UnpackNibbles(RecipePtr words, NibbleLayout layout);
  // GGUF blocks: U8[..., bytes of a row] -> `to`[..., weights of a row]; F32, F16 or BF16.
  static absl::StatusOr<RecipePtr> DequantizeBlocks(RecipePtr bytes, kernels::BlockFormat format,
                                                    ElementType to);
  // A plane of GGUF blocks: U8[..., bytes of a row] -> numbers [..., weights of a row], or scales or
  // minima [..., blocks of a row], in the plane's element type (kernels/block_planes.h).
  static absl::StatusOr<RecipePtr> CopyBlockPlane(RecipePtr bytes, kernels::BlockFormat format,
                                                  kernels::BlockPlane plane);

  const TensorType& type() const { return type_; }
  const Digest& digest() const { return digest_; }
  // What is checked beside the digest and is not part of it (recipe_op.h).
  const Digest& stamp() const { return stamp_; }
  const RecipeOp& op() const { return op_; }
  absl::Span<const RecipePtr> inputs() const { return inputs_; }
  int depth() const { return depth_; }
  // Each Constant reachable from here once, with its operation.
  void ForEachConstant(absl::FunctionRef<void(const Recipe&, const ConstantOp&)> visit) const;
  // Bytes of source this recipe holds (each Constant reachable from it once).
  uint64_t SourceBytes() const;
  // Whether every source identity means the same bytes in another process.
  bool Persistent() const;
  // A description, on one line.
  std::string Describe() const;

 private:
  Recipe() = default;
  static absl::StatusOr<RecipePtr> GatherRows(RecipePtr indices, RecipePtr table);
  static absl::StatusOr<RecipePtr> Make(RecipeOp op, std::vector<RecipePtr> inputs,
                                        TensorType type);
  RecipeOp op_;
  std::vector<RecipePtr> inputs_;
  TensorType type_;
  Digest digest_;
  Digest stamp_;
  int depth_ = 1;
  int64_t operands_ = 1;  // elements of leaves that make one element
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_H_

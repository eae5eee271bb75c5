// Recipe: the immutable DAG of operations that produces a weight from source bytes.
//
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr stored, Recipe::Constant(file, 4096, type,
//   "lm_head.weight")); NPUBANK_ASSIGN_OR_RETURN(RecipePtr turned, Recipe::Permute(stored, {1,
//   0})); NPUBANK_ASSIGN_OR_RETURN(RecipePtr half, Recipe::Convert(turned, ElementType::kF16));
//   half->type();       // F16[...]: inferred when made, no byte is read
//   half->digest();     // the same in every process for the same file and chain
//   half->Describe();   // "lm_head.weight BF16[32000,768] -> permute(1,0) -> convert(F16)"
//
// Ownership: shared and immutable, so one sub-recipe can serve many. Threads: any.
// An operation that changes nothing (a Convert to the same type, a Permute in order, a Reshape to
// the same dims, a Slice of everything, a Concat of one) returns its input, so that it has its
// input's digest. Errors: each maker returns InvalidArgument naming the operation and the types
// that do not fit. Depth is at most kMaxDepth, so that walking and dropping a recipe cannot exhaust
// the stack.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lazy_tensor/digest.h"
#include "lazy_tensor/retention.h"
#include "lazy_tensor/shape.h"
#include "lazy_tensor/source.h"

namespace npubank {

class Recipe;
using RecipePtr = std::shared_ptr<const Recipe>;

// What a node does; the numbers of the operations (recipe_codec.h) are never reused.
struct ConstantOp {
  std::shared_ptr<const SourceHold> hold;
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
using RecipeOp = std::variant<ConstantOp, ConcatOp, SliceOp, ReshapeOp, PermuteOp, ConvertOp>;

class Recipe {
 public:
  static constexpr int kMaxDepth = 256;

  static absl::StatusOr<RecipePtr> Constant(std::shared_ptr<Source> source, uint64_t offset,
                                            TensorType type, std::string name);
  static absl::StatusOr<RecipePtr> Concat(std::vector<RecipePtr> inputs, int axis);
  static absl::StatusOr<RecipePtr> Slice(RecipePtr input, absl::Span<const int64_t> start,
                                         absl::Span<const int64_t> size);
  static absl::StatusOr<RecipePtr> Reshape(RecipePtr input, absl::Span<const int64_t> dims);
  static absl::StatusOr<RecipePtr> Permute(RecipePtr input, absl::Span<const int> order);
  static absl::StatusOr<RecipePtr> Convert(RecipePtr input, ElementType to);

  const TensorType& type() const { return type_; }
  const Digest& digest() const { return digest_; }
  const RecipeOp& op() const { return op_; }
  absl::Span<const RecipePtr> inputs() const { return inputs_; }
  int depth() const { return depth_; }
  // Each Constant reachable from here once, with its operation.
  void ForEachConstant(absl::FunctionRef<void(const Recipe&, const ConstantOp&)> visit) const;
  // Bytes of source this recipe holds (each Constant reachable from it once).
  uint64_t SourceBytes() const;
  // Whether every source identity means the same bytes in another process.
  bool Persistent() const;
  // In words, on one line.
  std::string Describe() const;

 private:
  Recipe() = default;
  static absl::StatusOr<RecipePtr> Make(RecipeOp op, std::vector<RecipePtr> inputs, TensorType type,
                                        Digest digest);
  RecipeOp op_;
  std::vector<RecipePtr> inputs_;
  TensorType type_;
  Digest digest_;
  int depth_ = 1;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_H_

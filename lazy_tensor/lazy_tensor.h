// LazyTensor: a weight that is not evaluated yet: a handle to a recipe, or, once detached, to its
// digest and type only. The one way to build weights.
//
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor stored, LazyTensor::Stored(*index, "wq"));
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor transposed, stored.Permute({1, 0}));
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor weight, transposed.Convert(ElementType::kF16));
//   weight.uid();       // the same in every process
//   weight.Detach();    // lets go of the file; uid, digest and type stay
//
// A tensor of a compiled submodel is only described: an encoded recipe over an index (recipe/recipe_list.h). It
// has uid, digest and type as any other, holds no source and opens no file; its recipe is made when
// somebody evaluates it or builds on it.
//
// Ownership: copies are handles to one state, so detaching one detaches all; a tensor built on top
// of another holds the sub-recipe itself and is not affected. Threads: any; a thread that evaluates
// while another detaches keeps the recipe it started with until it is done. Errors: operations on a
// detached tensor return FailedPrecondition; types that do not fit InvalidArgument, naming the operation
// and the types; of a described tensor those of RecipeList::Make.
#ifndef NPUBANK_LAZY_TENSOR_LAZY_TENSOR_H_
#define NPUBANK_LAZY_TENSOR_LAZY_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/kernels/block_planes.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

class Recipe;                       // recipe/recipe.h
class Source;                       // sources/source.h
class SourceIndex;                  // sources/source_index.h
enum class NibbleLayout : uint8_t;  // recipe/recipe_op.h
struct Description;                 // recipe/recipe_list.h

class LazyTensor {
 public:
  explicit LazyTensor(std::shared_ptr<const Recipe> recipe);  // not null
  explicit LazyTensor(Description description);

  // What lies in a file. Stored opens the file if nobody has; NotFound for a name that is not there.
  static absl::StatusOr<LazyTensor> Stored(const SourceIndex& index, absl::string_view name);
  static absl::StatusOr<LazyTensor> Constant(std::shared_ptr<Source> source, uint64_t offset,
                                             TensorType type, std::string name);
  // Every element has the bits `bits` (its low BitWidth bits; the others must be zero).
  static absl::StatusOr<LazyTensor> Splat(TensorType type, uint64_t bits);

  // What moves elements.
  static absl::StatusOr<LazyTensor> Concat(absl::Span<const LazyTensor> inputs, int axis);
  absl::StatusOr<LazyTensor> Slice(absl::Span<const int64_t> start,
                                   absl::Span<const int64_t> size) const;
  absl::StatusOr<LazyTensor> Reshape(absl::Span<const int64_t> dims) const;
  absl::StatusOr<LazyTensor> Permute(absl::Span<const int> order) const;

  // What computes values; recipe/recipe.h has the rules of each.
  absl::StatusOr<LazyTensor> Convert(ElementType to) const;
  // (this - zero) * scale; `zero` may be null.
  absl::StatusOr<LazyTensor> Unpack(const LazyTensor& scale, const LazyTensor* zero,
                                    ElementType to) const;
  // table[this]: a code book; or, of I32[K], rows of a table [G, ...].
  absl::StatusOr<LazyTensor> Gather(const LazyTensor& table) const;
  absl::StatusOr<LazyTensor> Shift() const;
  absl::StatusOr<LazyTensor> UnpackNibbles(NibbleLayout layout) const;
  absl::StatusOr<LazyTensor> DequantizeBlocks(kernels::BlockFormat format, ElementType to) const;
  absl::StatusOr<LazyTensor> CopyBlockPlane(kernels::BlockFormat format,
                                            kernels::BlockPlane plane) const;

  const TensorType& type() const;
  const Digest& digest() const;
  // What is checked beside the digest and is not part of it (recipe/recipe_op.h).
  const Digest& stamp() const;
  Uid uid() const;

  bool detached() const;
  // Lets go of recipe and description, and with them of the sources that only they held. Idempotent.
  void Detach();
  // The recipe; made now, and not kept, where the tensor is only described.
  absl::StatusOr<std::shared_ptr<const Recipe>> MakeRecipe() const;
  // The recipe if the tensor has one: null when it is only described, or detached.
  std::shared_ptr<const Recipe> recipe() const;
  // Empty unless the tensor is only described.
  Description description() const;

  // The tensor's bytes into `out` (see evaluate.h).
  absl::Status EvaluateInto(absl::Span<std::byte> out, const EvaluateOptions& options = {}) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_LAZY_TENSOR_H_

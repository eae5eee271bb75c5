// LazyTensor: a weight that is not evaluated yet: a handle to a recipe, or, once detached, to its
// digest and type only.
//
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor stored, LazyTensor::Constant(file, offset, type, "wq"));
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor turned, stored.Permute({1, 0}));
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor weight, turned.Convert(ElementType::kF16));
//   weight.uid();       // the same in every process
//   weight.Detach();    // lets go of the file; uid, digest and type stay
//
// Ownership: copies are handles to one state, so detaching one detaches all; a tensor built on top
// of another holds the sub-recipe itself and is not affected. Threads: any; a thread that evaluates
// while another detaches keeps the recipe it started with until it is done. Errors: operations on a
// detached tensor return FailedPrecondition; type errors InvalidArgument.
#ifndef NPUBANK_LAZY_TENSOR_LAZY_TENSOR_H_
#define NPUBANK_LAZY_TENSOR_LAZY_TENSOR_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

class LazyTensor {
 public:
  explicit LazyTensor(RecipePtr recipe);
  static absl::StatusOr<LazyTensor> Constant(std::shared_ptr<Source> source, uint64_t offset,
                                             TensorType type, std::string name);
  static absl::StatusOr<LazyTensor> Concat(absl::Span<const LazyTensor> inputs, int axis);

  absl::StatusOr<LazyTensor> Slice(absl::Span<const int64_t> start,
                                   absl::Span<const int64_t> size) const;
  absl::StatusOr<LazyTensor> Reshape(absl::Span<const int64_t> dims) const;
  absl::StatusOr<LazyTensor> Permute(absl::Span<const int> order) const;
  absl::StatusOr<LazyTensor> Convert(ElementType to) const;

  const TensorType& type() const;
  const Digest& digest() const;
  Uid uid() const;

  // The recipe, or null once detached.
  RecipePtr recipe() const;
  bool detached() const { return recipe() == nullptr; }
  // Lets go of the recipe, and with it of the sources that only it held. Idempotent.
  void Detach();

  // The tensor's bytes into `out` (see evaluate.h).
  absl::Status EvaluateInto(absl::Span<std::byte> out, const EvaluateOptions& options = {}) const;

 private:
  struct State;
  absl::StatusOr<RecipePtr> Attached() const;  // the recipe, or FailedPrecondition
  std::shared_ptr<State> state_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_LAZY_TENSOR_H_

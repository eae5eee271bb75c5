#include "npubank/lazy_tensor/lazy_tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

absl::Status DetachedError(const TensorType& type, const Digest& digest) {
  return absl::FailedPreconditionError(
      absl::StrCat("the tensor ", Uid::Of(digest).ToHex(), " (", type.ToString(),
                   ") is detached: its source was let go when the bank took it over"));
}

}  // namespace

struct LazyTensor::State {
  explicit State(RecipePtr from)
      : type(from->type()), digest(from->digest()), recipe(std::move(from)) {}
  const TensorType type;
  const Digest digest;
  Mutex mutex;
  RecipePtr recipe ABSL_GUARDED_BY(mutex);
};

LazyTensor::LazyTensor(RecipePtr recipe) : state_(std::make_shared<State>(std::move(recipe))) {}

const TensorType& LazyTensor::type() const { return state_->type; }
const Digest& LazyTensor::digest() const { return state_->digest; }
Uid LazyTensor::uid() const { return Uid::Of(state_->digest); }

RecipePtr LazyTensor::recipe() const {
  MutexLock lock(state_->mutex);
  return state_->recipe;
}

void LazyTensor::Detach() {
  RecipePtr dropped;  // destroyed after the lock: the last holder of a file closes it
  MutexLock lock(state_->mutex);
  dropped.swap(state_->recipe);
}

absl::StatusOr<RecipePtr> LazyTensor::Attached() const {
  RecipePtr attached = recipe();
  if (attached == nullptr) return DetachedError(type(), digest());
  return attached;
}

absl::StatusOr<LazyTensor> LazyTensor::Constant(std::shared_ptr<Source> source, uint64_t offset,
                                                TensorType type, std::string name) {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr made, Recipe::Constant(std::move(source), offset,
                                                            std::move(type), std::move(name)));
  return LazyTensor(std::move(made));
}

absl::StatusOr<LazyTensor> LazyTensor::Concat(absl::Span<const LazyTensor> inputs, int axis) {
  std::vector<RecipePtr> recipes;
  recipes.reserve(inputs.size());
  for (const LazyTensor& input : inputs) {
    NPUBANK_ASSIGN_OR_RETURN(RecipePtr attached, input.Attached());
    recipes.push_back(std::move(attached));
  }
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr made, Recipe::Concat(std::move(recipes), axis));
  return LazyTensor(std::move(made));
}

absl::StatusOr<LazyTensor> LazyTensor::Slice(absl::Span<const int64_t> start,
                                             absl::Span<const int64_t> size) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, Attached());
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr made, Recipe::Slice(std::move(input), start, size));
  return LazyTensor(std::move(made));
}

absl::StatusOr<LazyTensor> LazyTensor::Reshape(absl::Span<const int64_t> dims) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, Attached());
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr made, Recipe::Reshape(std::move(input), dims));
  return LazyTensor(std::move(made));
}

absl::StatusOr<LazyTensor> LazyTensor::Permute(absl::Span<const int> order) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, Attached());
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr made, Recipe::Permute(std::move(input), order));
  return LazyTensor(std::move(made));
}

absl::StatusOr<LazyTensor> LazyTensor::Convert(ElementType to) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, Attached());
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr made, Recipe::Convert(std::move(input), to));
  return LazyTensor(std::move(made));
}

absl::Status LazyTensor::EvaluateInto(absl::Span<std::byte> out,
                                      const EvaluateOptions& options) const {
  // Keeps the recipe alive to the end even if another thread detaches meanwhile.
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr held, Attached());
  return Evaluate(*held, out, options);
}

}  // namespace npubank

#include "npubank/lazy_tensor/lazy_tensor.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {
namespace {

absl::Status DetachedError(const TensorType& type, const Digest& digest) {
  return absl::FailedPreconditionError(
      absl::StrCat("the tensor ", Uid::Of(digest).ToHex(), " (", type.ToString(),
                   ") is detached: its source was let go when the bank took it over"));
}

absl::StatusOr<LazyTensor> Handle(absl::StatusOr<RecipePtr> recipe) {
  NPUBANK_RETURN_IF_ERROR(recipe.status());
  return LazyTensor(*std::move(recipe));
}

}  // namespace

struct LazyTensor::State {
  State(TensorType tensor_type, const Digest& tensor_digest, const Digest& tensor_stamp)
      : type(std::move(tensor_type)), digest(tensor_digest), stamp(tensor_stamp) {}
  const TensorType type;
  const Digest digest;
  const Digest stamp;
  Mutex mutex;
  RecipePtr recipe ABSL_GUARDED_BY(mutex);
  Description description ABSL_GUARDED_BY(mutex);

  // A handle that was moved from is as one that is detached.
  static State& Of(const LazyTensor& tensor) {
    static auto* const nothing = new State(TensorType(), Digest(), Digest());
    return tensor.state_ == nullptr ? *nothing : *tensor.state_;
  }
};

LazyTensor::LazyTensor(RecipePtr recipe)
    : state_(std::make_shared<State>(recipe->type(), recipe->digest(), recipe->stamp())) {
  MutexLock lock(state_->mutex);
  state_->recipe = std::move(recipe);
}

LazyTensor::LazyTensor(Description description)
    : state_(std::make_shared<State>(description.list->type(description.root), description.digest(),
                                     description.stamp())) {
  MutexLock lock(state_->mutex);
  state_->description = std::move(description);
}

const TensorType& LazyTensor::type() const { return State::Of(*this).type; }
const Digest& LazyTensor::digest() const { return State::Of(*this).digest; }
const Digest& LazyTensor::stamp() const { return State::Of(*this).stamp; }
Uid LazyTensor::uid() const { return Uid::Of(digest()); }

RecipePtr LazyTensor::recipe() const {
  State& state = State::Of(*this);
  MutexLock lock(state.mutex);
  return state.recipe;
}

Description LazyTensor::description() const {
  State& state = State::Of(*this);
  MutexLock lock(state.mutex);
  return state.description;
}

bool LazyTensor::detached() const {
  State& state = State::Of(*this);
  MutexLock lock(state.mutex);
  return state.recipe == nullptr && !state.description;
}

void LazyTensor::Detach() {
  // Destroyed after the lock: the last holder of a file closes it.
  RecipePtr recipe;
  Description description;
  State& state = State::Of(*this);
  MutexLock lock(state.mutex);
  recipe.swap(state.recipe);
  std::swap(description, state.description);
}

absl::StatusOr<RecipePtr> LazyTensor::MakeRecipe() const {
  Description described;
  {
    State& state = State::Of(*this);
    MutexLock lock(state.mutex);
    if (state.recipe != nullptr) return state.recipe;
    described = state.description;
  }
  if (described) return described.Make();
  return DetachedError(type(), digest());
}

absl::StatusOr<LazyTensor> LazyTensor::Stored(const SourceIndex& index, absl::string_view name) {
  NPUBANK_ASSIGN_OR_RETURN(const StoredTensor* tensor, index.Get(name));
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, index.Open(tensor->file));
  return Constant(std::move(source), tensor->offset, tensor->type, tensor->name);
}

absl::StatusOr<LazyTensor> LazyTensor::Constant(std::shared_ptr<Source> source, uint64_t offset,
                                                TensorType type, std::string name) {
  return Handle(Recipe::Constant(std::move(source), offset, std::move(type), std::move(name)));
}

absl::StatusOr<LazyTensor> LazyTensor::Splat(TensorType type, uint64_t bits) {
  return Handle(Recipe::Splat(std::move(type), bits));
}

absl::StatusOr<LazyTensor> LazyTensor::Concat(absl::Span<const LazyTensor> inputs, int axis) {
  std::vector<RecipePtr> recipes;
  recipes.reserve(inputs.size());
  for (const LazyTensor& input : inputs) {
    NPUBANK_ASSIGN_OR_RETURN(recipes.emplace_back(), input.MakeRecipe());
  }
  return Handle(Recipe::Concat(std::move(recipes), axis));
}

absl::StatusOr<LazyTensor> LazyTensor::Slice(absl::Span<const int64_t> start,
                                             absl::Span<const int64_t> size) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, MakeRecipe());
  return Handle(Recipe::Slice(std::move(input), start, size));
}

absl::StatusOr<LazyTensor> LazyTensor::Reshape(absl::Span<const int64_t> dims) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, MakeRecipe());
  return Handle(Recipe::Reshape(std::move(input), dims));
}

absl::StatusOr<LazyTensor> LazyTensor::Permute(absl::Span<const int> order) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, MakeRecipe());
  return Handle(Recipe::Permute(std::move(input), order));
}

absl::StatusOr<LazyTensor> LazyTensor::Convert(ElementType to) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, MakeRecipe());
  return Handle(Recipe::Convert(std::move(input), to));
}

absl::StatusOr<LazyTensor> LazyTensor::Unpack(const LazyTensor& scale, const LazyTensor* zero,
                                              ElementType to) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr weights, MakeRecipe());
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr scales, scale.MakeRecipe());
  RecipePtr zeros;
  if (zero != nullptr) {
    NPUBANK_ASSIGN_OR_RETURN(zeros, zero->MakeRecipe());
  }
  return Handle(Recipe::Unpack(std::move(weights), std::move(scales), std::move(zeros), to));
}

absl::StatusOr<LazyTensor> LazyTensor::Gather(const LazyTensor& table) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr indices, MakeRecipe());
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr entries, table.MakeRecipe());
  return Handle(Recipe::Gather(std::move(indices), std::move(entries)));
}

absl::StatusOr<LazyTensor> LazyTensor::Shift() const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr input, MakeRecipe());
  return Handle(Recipe::Shift(std::move(input)));
}

absl::StatusOr<LazyTensor> LazyTensor::UnpackNibbles(NibbleLayout layout) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr words, MakeRecipe());
  return Handle(Recipe::UnpackNibbles(std::move(words), layout));
}

absl::StatusOr<LazyTensor> LazyTensor::DequantizeBlocks(kernels::BlockFormat format,
                                                        ElementType to) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr bytes, MakeRecipe());
  return Handle(Recipe::DequantizeBlocks(std::move(bytes), format, to));
}

absl::StatusOr<LazyTensor> LazyTensor::CopyBlockPlane(kernels::BlockFormat format,
                                                      kernels::BlockPlane plane) const {
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr bytes, MakeRecipe());
  return Handle(Recipe::CopyBlockPlane(std::move(bytes), format, plane));
}

absl::Status LazyTensor::EvaluateInto(absl::Span<std::byte> out,
                                      const EvaluateOptions& options) const {
  // Keeps the recipe alive to the end even if another thread detaches meanwhile.
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr held, MakeRecipe());
  return Evaluate(*held, out, options);
}

}  // namespace npubank

#include "npubank/lazy_tensor/recipe/recipe.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/recipe/recipe_internal.h"

namespace npubank {
namespace {

using internal::CheckInput;

// Every node of a DAG once, inputs before users.
void VisitOnce(const Recipe& recipe, std::unordered_set<const Recipe*>& seen,
               absl::FunctionRef<void(const Recipe&)> visit) {
  if (!seen.insert(&recipe).second) return;
  for (const RecipePtr& input : recipe.inputs()) VisitOnce(*input, seen, visit);
  visit(recipe);
}

}  // namespace

absl::StatusOr<RecipePtr> Recipe::Make(RecipeOp op, std::vector<RecipePtr> inputs,
                                       TensorType type) {
  int depth = 1;
  int64_t operands = inputs.empty() ? 1 : 0;
  const bool chooses = std::holds_alternative<ConcatOp>(op);  // an element comes from one input
  for (const RecipePtr& input : inputs) {
    depth = std::max(depth, input->depth_ + 1);
    operands = chooses ? std::max(operands, input->operands_) : operands + input->operands_;
  }
  if (depth > kMaxDepth || operands > kMaxOperands) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a recipe of ", depth, " steps that makes one element from ", operands, ", ending in ",
        type.ToString(), "; at most ", kMaxDepth, " and ", kMaxOperands, " are supported"));
  }
  std::shared_ptr<Recipe> recipe(new Recipe);
  recipe->op_ = std::move(op);
  recipe->inputs_ = std::move(inputs);
  recipe->type_ = std::move(type);
  std::vector<Digest> digests;
  std::vector<Digest> stamps;
  for (const RecipePtr& input : recipe->inputs_) {
    digests.push_back(input->digest_);
    stamps.push_back(input->stamp_);
  }
  recipe->digest_ = OperationDigest(recipe->op_, recipe->type_, digests);
  const auto* constant = std::get_if<ConstantOp>(&recipe->op_);
  recipe->stamp_ = constant != nullptr ? ConstantStamp(constant->hold->source().samples())
                                       : OperationStamp(stamps);
  recipe->depth_ = depth;
  recipe->operands_ = operands;
  return RecipePtr(std::move(recipe));
}

absl::StatusOr<RecipePtr> Recipe::Constant(std::shared_ptr<Source> source, uint64_t offset,
                                           TensorType type, std::string name) {
  if (source == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("constant '", name, "' without a source"));
  }
  const uint64_t bytes = type.bytes();
  if (offset > source->size() || bytes > source->size() - offset) {
    return absl::InvalidArgumentError(absl::StrCat("constant '", name, "' ", type.ToString(),
                                                   " at byte ", offset, " lies beyond the ",
                                                   source->size(), " bytes of '", source->name(), "'"));
  }
  auto hold = std::make_shared<const SourceHold>(std::move(source), bytes);
  return Make(ConstantOp{std::move(hold), offset, std::move(name)}, {}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Concat(std::vector<RecipePtr> inputs, int axis) {
  if (inputs.empty()) return absl::InvalidArgumentError("concat of no tensors");
  for (const RecipePtr& input : inputs) NPUBANK_RETURN_IF_ERROR(CheckInput("concat", input));
  const TensorType& first = inputs.front()->type();
  if (axis < 0 || axis >= first.shape().rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("concat along axis ", axis, " of ", first.ToString()));
  }
  std::vector<int64_t> dims(first.shape().dims().begin(), first.shape().dims().end());
  for (size_t i = 1; i < inputs.size(); ++i) {
    const TensorType& other = inputs[i]->type();
    bool fits = other.element() == first.element() && other.shape().rank() == first.shape().rank();
    for (int a = 0; fits && a < first.shape().rank(); ++a) {
      fits = a == axis || other.shape().dim(a) == first.shape().dim(a);
    }
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("concat along axis ", axis, " of ",
                                                     first.ToString(), " and ", other.ToString()));
    }
    dims[axis] += other.shape().dim(axis);  // both at most 2^62: checked again before the next
    if (dims[axis] > (int64_t{1} << 62)) {
      return absl::InvalidArgumentError(
          absl::StrCat("concat along axis ", axis, " has more than 2^62 elements"));
    }
  }
  if (inputs.size() == 1) return std::move(inputs.front());
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims));
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(first.element(), std::move(shape)));
  return Make(ConcatOp{axis}, std::move(inputs), std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Slice(RecipePtr input, absl::Span<const int64_t> start,
                                        absl::Span<const int64_t> size) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("slice", input));
  const Shape& shape = input->type().shape();
  const auto rank = static_cast<size_t>(shape.rank());
  bool fits = start.size() == rank && size.size() == rank;
  for (size_t a = 0; fits && a < rank; ++a) {
    const int64_t dim = shape.dim(static_cast<int>(a));
    fits = start[a] >= 0 && size[a] >= 0 && start[a] <= dim && size[a] <= dim - start[a];
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("slice at [", absl::StrJoin(start, ","),
                                                   "] of size [", absl::StrJoin(size, ","), "] of ",
                                                   input->type().ToString()));
  }
  if (size == shape.dims()) return input;
  NPUBANK_ASSIGN_OR_RETURN(Shape sliced, Shape::Create(size));
  NPUBANK_ASSIGN_OR_RETURN(TensorType type,
                           TensorType::Create(input->type().element(), std::move(sliced)));
  return Make(SliceOp{{start.begin(), start.end()}}, {std::move(input)}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Reshape(RecipePtr input, absl::Span<const int64_t> dims) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("reshape", input));
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok() || shape->num_elements() != input->type().num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("reshape of ", input->type().ToString(), " to [",
                                                   absl::StrJoin(dims, ","), "]"));
  }
  if (*shape == input->type().shape()) return input;
  NPUBANK_ASSIGN_OR_RETURN(TensorType type,
                           TensorType::Create(input->type().element(), *std::move(shape)));
  return Make(ReshapeOp{}, {std::move(input)}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Permute(RecipePtr input, absl::Span<const int> order) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("permute", input));
  const Shape& shape = input->type().shape();
  std::array<bool, Shape::kMaxRank> used = {};
  bool fits = order.size() == static_cast<size_t>(shape.rank());
  bool moves = false;
  std::vector<int64_t> dims;
  for (size_t a = 0; fits && a < order.size(); ++a) {
    const int axis = order[a];
    fits = axis >= 0 && axis < shape.rank() && !used[axis];
    if (!fits) break;
    used[axis] = true;
    moves |= axis != static_cast<int>(a);
    dims.push_back(shape.dim(axis));
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("permute(", absl::StrJoin(order, ","), ") of ", input->type().ToString()));
  }
  if (!moves) return input;
  if (const auto* inner = std::get_if<PermuteOp>(&input->op())) {
    std::vector<int> joined;
    for (const int axis : order) joined.push_back(inner->order[axis]);
    return Permute(input->inputs()[0], joined);
  }
  NPUBANK_ASSIGN_OR_RETURN(Shape permuted, Shape::Create(dims));
  NPUBANK_ASSIGN_OR_RETURN(TensorType type,
                           TensorType::Create(input->type().element(), std::move(permuted)));
  return Make(PermuteOp{{order.begin(), order.end()}}, {std::move(input)}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Convert(RecipePtr input, ElementType to) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("convert", input));
  if (!kernels::CanConvert(input->type().element(), to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("convert of ", input->type().ToString(), " to ", ElementTypeName(to)));
  }
  if (input->type().element() == to) return input;
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(to, input->type().shape()));
  return Make(ConvertOp{}, {std::move(input)}, std::move(type));
}

void Recipe::ForEachConstant(
    absl::FunctionRef<void(const Recipe&, const ConstantOp&)> visit) const {
  std::unordered_set<const Recipe*> seen;
  VisitOnce(*this, seen, [&](const Recipe& recipe) {
    if (const auto* constant = std::get_if<ConstantOp>(&recipe.op())) visit(recipe, *constant);
  });
}

uint64_t Recipe::SourceBytes() const {
  uint64_t bytes = 0;
  ForEachConstant([&](const Recipe& recipe, const ConstantOp&) {
    bytes += recipe.type().bytes();
  });
  return bytes;
}

bool Recipe::Persistent() const {
  bool persistent = true;
  ForEachConstant([&](const Recipe&, const ConstantOp& constant) {
    persistent &= constant.hold->source().persistent();
  });
  return persistent;
}

namespace {

void AppendDescription(const Recipe& recipe, std::string& text) {
  internal::AppendDescription(
      recipe.inputs(),
      [](const RecipePtr& input, std::string& out) { AppendDescription(*input, out); },
      DescribeOperation(recipe.op(), recipe.type()), text);
}

}  // namespace

std::string Recipe::Describe() const {
  std::string text;
  AppendDescription(*this, text);
  return internal::Shortened(std::move(text));
}

}  // namespace npubank

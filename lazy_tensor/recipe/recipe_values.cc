// The makers of the operations that compute values; those that move elements are in recipe.cc.

#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/kernels/dequantize.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_internal.h"

namespace npubank {
namespace {

using internal::CheckInput;

// Whether one element of `scale` serves a whole number of weights along each axis.
bool ScaleFits(const Shape& weights, const Shape& scale) {
  if (scale.num_elements() == 1) return true;
  if (scale.rank() != weights.rank()) return false;
  for (int a = 0; a < weights.rank(); ++a) {
    if (scale.dim(a) == 0 ? weights.dim(a) != 0 : weights.dim(a) % scale.dim(a) != 0) return false;
  }
  return true;
}

absl::StatusOr<ElementType> Shifted(const TensorType& type) {
  switch (type.element()) {
    case ElementType::kU8:
      return ElementType::kI8;
    case ElementType::kI8:
      return ElementType::kU8;
    case ElementType::kU4:
      return ElementType::kI4;
    case ElementType::kI4:
      return ElementType::kU4;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("shift of ", type.ToString(), "; U8, I8, U4 and I4 can be shifted"));
  }
}

// Rows of bytes as rows of `count` elements for each block in them.
absl::StatusOr<TensorType> OfBlocks(absl::string_view operation, const TensorType& bytes,
                                    kernels::BlockFormat format, ElementType to, int64_t count) {
  const auto block_bytes = static_cast<int64_t>(kernels::BlockBytes(format));
  const Shape& from = bytes.shape();
  if (bytes.element() != ElementType::kU8 || from.rank() < 1 ||
      from.dims().back() % block_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, " of ", bytes.ToString(), " as ", kernels::BlockFormatName(format),
                     ", rows of which are a multiple of ", block_bytes, " bytes"));
  }
  std::vector<int64_t> dims(from.dims().begin(), from.dims().end());
  const int64_t blocks = dims.back() / block_bytes;
  if (blocks > INT64_MAX / count) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, " of ", bytes.ToString(), " has too many weights"));
  }
  dims.back() = blocks * count;
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims));
  return TensorType::Create(to, std::move(shape));
}

}  // namespace

absl::StatusOr<RecipePtr> Recipe::Splat(TensorType type, uint64_t bits) {
  const int width = BitWidth(type.element());
  if (width < 64 && bits >> width != 0) {
    return absl::InvalidArgumentError(absl::StrCat("splat of ", type.ToString(),
                                                   " with the bits 0x", absl::Hex(bits),
                                                   ", which have more than ", width));
  }
  return Make(SplatOp{bits}, {}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Unpack(RecipePtr weights, RecipePtr scale, RecipePtr zero,
                                         ElementType to) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("unpack", weights));
  NPUBANK_RETURN_IF_ERROR(CheckInput("unpack", scale));
  const TensorType& from = weights->type();
  const Shape& scales = scale->type().shape();
  bool fits = kernels::CanDequantize(from.element(), to) &&
              kernels::IsPlainFloat(scale->type().element()) && ScaleFits(from.shape(), scales);
  if (zero != nullptr) {
    fits = fits && kernels::CanConvert(zero->type().element(), ElementType::kF32) &&
           (zero->type().num_elements() == 1 || zero->type().shape() == scales);
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("unpack of ", from.ToString(), " with the scale ", scale->type().ToString(),
                     zero == nullptr ? "" : " and the zero point ",
                     zero == nullptr ? "" : zero->type().ToString(), " to ", ElementTypeName(to)));
  }
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(to, from.shape()));
  std::vector<RecipePtr> inputs = {std::move(weights), std::move(scale)};
  if (zero != nullptr) inputs.push_back(std::move(zero));
  return Make(UnpackOp{}, std::move(inputs), std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::GatherRows(RecipePtr indices, RecipePtr table) {
  const Shape& from = table->type().shape();
  if (indices->type().shape().rank() != 1 || from.rank() < 1 || from.dim(0) < 1) {
    return absl::InvalidArgumentError(absl::StrCat("gather of rows ", indices->type().ToString(), " of ",
                                                   table->type().ToString()));
  }
  std::vector<int64_t> dims(from.dims().begin(), from.dims().end());
  dims[0] = indices->type().num_elements();
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims));
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(table->type().element(), std::move(shape)));
  std::vector<RecipePtr> inputs = {std::move(indices), std::move(table)};
  return Make(GatherOp{}, std::move(inputs), std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Gather(RecipePtr indices, RecipePtr table) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("gather", indices));
  NPUBANK_RETURN_IF_ERROR(CheckInput("gather", table));
  const TensorType& index = indices->type();
  const TensorType& entry = table->type();
  if (index.element() == ElementType::kI32) return GatherRows(std::move(indices), std::move(table));
  const bool fits = (index.element() == ElementType::kU4 || index.element() == ElementType::kU8) &&
                    entry.shape().rank() == 1 && BitWidth(entry.element()) >= 8 &&
                    entry.num_elements() >= int64_t{1} << BitWidth(index.element()) &&
                    entry.num_elements() <= 256;
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("gather of ", index.ToString(), " from the table ", entry.ToString()));
  }
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(entry.element(), index.shape()));
  std::vector<RecipePtr> inputs = {std::move(indices), std::move(table)};
  return Make(GatherOp{}, std::move(inputs), std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::Shift(RecipePtr input) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("shift", input));
  NPUBANK_ASSIGN_OR_RETURN(const ElementType to, Shifted(input->type()));
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(to, input->type().shape()));
  return Make(ShiftOp{}, {std::move(input)}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::UnpackNibbles(RecipePtr words, NibbleLayout layout) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("unpack_nibbles", words));
  const Shape& from = words->type().shape();
  const bool rows = HoldsRows(layout);
  const int per_word = NumbersInWord(layout);
  if (words->type().element() != ElementType::kI32 || (rows ? from.rank() != 2 : from.rank() < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("unpack_nibbles of ", words->type().ToString(),
                                                   rows ? "; I32[K/" : "; I32[...,N/", per_word,
                                                   rows ? ",N]" : "]", " is needed"));
  }
  std::vector<int64_t> dims(from.dims().begin(), from.dims().end());
  int64_t& packed = rows ? dims.front() : dims.back();
  if (packed > INT64_MAX / per_word) {
    return absl::InvalidArgumentError(
        absl::StrCat("unpack_nibbles of ", words->type().ToString(), " has too many weights"));
  }
  packed *= per_word;
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims));
  const ElementType to = per_word == 4 ? ElementType::kU8 : ElementType::kU4;
  NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(to, std::move(shape)));
  return Make(UnpackNibblesOp{layout}, {std::move(words)}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::DequantizeBlocks(RecipePtr bytes, kernels::BlockFormat format,
                                                   ElementType to) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("dequantize_blocks", bytes));
  if (!kernels::CanDequantizeBlocks(to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dequantize_blocks of ", bytes->type().ToString(), " to ",
                     ElementTypeName(to), "; F32, F16 and BF16 can be made"));
  }
  NPUBANK_ASSIGN_OR_RETURN(TensorType type,
                           OfBlocks("dequantize_blocks", bytes->type(), format, to,
                                    static_cast<int64_t>(kernels::BlockLength(format))));
  return Make(DequantizeBlocksOp{format}, {std::move(bytes)}, std::move(type));
}

absl::StatusOr<RecipePtr> Recipe::CopyBlockPlane(RecipePtr bytes, kernels::BlockFormat format,
                                                 kernels::BlockPlane plane) {
  NPUBANK_RETURN_IF_ERROR(CheckInput("copy_block_plane", bytes));
  const auto shape = kernels::ShapeOf(format, plane);
  if (!shape.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy_block_plane of ", bytes->type().ToString(), ": ",
                     kernels::BlockFormatName(format), " has no plane of ",
                     kernels::BlockPlaneName(plane)));
  }
  NPUBANK_ASSIGN_OR_RETURN(TensorType type,
                           OfBlocks("copy_block_plane", bytes->type(), format, shape->element,
                                    static_cast<int64_t>(shape->count)));
  return Make(CopyBlockPlaneOp{format, plane}, {std::move(bytes)}, std::move(type));
}

}  // namespace npubank

#include "npubank/tests/support/weights/random_recipe.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

namespace npubank::testing {
namespace {

std::vector<int64_t> DimsOf(const Recipe& recipe) {
  const absl::Span<const int64_t> dims = recipe.type().shape().dims();
  return {dims.begin(), dims.end()};
}

RecipePtr Or(absl::StatusOr<RecipePtr> made, RecipePtr otherwise) {
  return made.ok() ? *std::move(made) : std::move(otherwise);
}

}  // namespace

int64_t RandomRecipes::Pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

RecipePtr RandomRecipes::Make(int steps) { return Extend(Constant(), steps); }

RecipePtr RandomRecipes::Extend(RecipePtr recipe, int steps) {
  for (int i = 0; i < steps; ++i) recipe = Step(std::move(recipe));
  return recipe;
}

RecipePtr RandomRecipes::Constant() {
  const ElementType element = *ElementTypeFromNumber(static_cast<uint32_t>(Pick(1, 18)));
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (int64_t rank = Pick(0, 5); rank > 0; --rank) {
    const int64_t dim =
        Pick(1, std::min<int64_t>(max_elements_ / count, rank == 1 ? max_elements_ / 30 : 12));
    dims.push_back(dim);
    count *= dim;
  }
  return ConstantOf(element, dims);
}

RecipePtr RandomRecipes::ConstantOf(ElementType element, const std::vector<int64_t>& dims) {
  const TensorType type = *TensorType::Create(element, *Shape::Create(dims));
  const int64_t offset = Pick(0, 70);
  std::vector<std::byte> bytes(static_cast<size_t>(offset + type.bytes() + Pick(0, 9)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(Pick(0, 255));

  const std::string name = "t" + std::to_string(constants_.size());
  std::shared_ptr<Source> source;
  if (Pick(0, 1) == 0) {
    source = Source::FromBuffer(std::move(bytes), name);
  } else {
    files_.emplace_back(bytes);
    source = *Source::OpenFile(files_.back().path(),
                               Pick(0, 1) == 0 ? FileAccess::kMap : FileAccess::kRead);
  }
  RecipePtr recipe = *Recipe::Constant(source, static_cast<uint64_t>(offset), type, name);
  constants_[name] = recipe;
  return recipe;
}

RecipePtr RandomRecipes::Step(RecipePtr recipe) {
  switch (Pick(0, 12)) {
    case 0:
      return Concat(std::move(recipe));
    case 1:
      return Slice(std::move(recipe));
    case 2:
    case 3:
      return Reshape(std::move(recipe));
    case 4:
    case 5:
      return Permute(std::move(recipe));
    case 6:
      return Splat(std::move(recipe));
    case 7:
      return Unpack(std::move(recipe));
    case 8:
      return Gather(std::move(recipe));
    case 9:
      return UnpackNibbles(std::move(recipe));
    case 10:
      return DequantizeBlocks(std::move(recipe));
    case 11:
      return CopyBlockPlane(std::move(recipe));
    default:
      return Or(Recipe::Shift(recipe), Convert(recipe));
  }
}

// With itself, a part of itself, or a tensor made to fit.
RecipePtr RandomRecipes::Concat(RecipePtr recipe) {
  const int rank = recipe->type().shape().rank();
  if (rank == 0 || recipe->type().num_elements() > max_elements_) return recipe;
  const int axis = static_cast<int>(Pick(0, rank - 1));
  std::vector<RecipePtr> inputs = {recipe};
  for (int64_t more = Pick(1, 3); more > 0; --more) {
    RecipePtr other = recipe;
    if (Pick(0, 1) == 0) {
      std::vector<int64_t> size = DimsOf(*recipe);
      size[axis] = Pick(0, size[axis]);
      other = *Recipe::Slice(recipe, std::vector<int64_t>(size.size(), 0), size);
    }
    inputs.push_back(std::move(other));
  }
  std::shuffle(inputs.begin(), inputs.end(), random_);
  return Or(Recipe::Concat(inputs, axis), recipe);
}

RecipePtr RandomRecipes::Slice(RecipePtr recipe) {
  std::vector<int64_t> start;
  std::vector<int64_t> size;
  for (int64_t dim : DimsOf(*recipe)) {
    start.push_back(Pick(0, 1) == 0 ? 0 : Pick(0, dim));
    size.push_back(Pick(0, 1) == 0
                       ? dim - start.back()
                       : Pick(std::min<int64_t>(1, dim - start.back()), dim - start.back()));
  }
  return *Recipe::Slice(recipe, start, size);
}

// Shuffles the dimensions' prime factors over new dimensions.
RecipePtr RandomRecipes::Reshape(RecipePtr recipe) {
  int64_t rest = recipe->type().num_elements();
  std::vector<int64_t> dims(static_cast<size_t>(Pick(1, 5)), 1);
  if (rest == 0) dims[0] = 0;
  for (int64_t factor = 2; rest > 1; ++factor) {
    while (rest % factor == 0) {
      dims[static_cast<size_t>(Pick(0, static_cast<int64_t>(dims.size()) - 1))] *= factor;
      rest /= factor;
    }
  }
  return Or(Recipe::Reshape(recipe, dims), recipe);
}

RecipePtr RandomRecipes::Permute(RecipePtr recipe) {
  std::vector<int> order(static_cast<size_t>(recipe->type().shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  return *Recipe::Permute(recipe, order);
}

RecipePtr RandomRecipes::Convert(RecipePtr recipe) {
  const ElementType to = *ElementTypeFromNumber(static_cast<uint32_t>(Pick(1, 18)));
  return Or(Recipe::Convert(recipe, to), recipe);
}

ElementType RandomRecipes::AnyOf(const std::vector<ElementType>& types) {
  return types[static_cast<size_t>(Pick(0, static_cast<int64_t>(types.size()) - 1))];
}

// Some of the tensor overwritten with one number.
RecipePtr RandomRecipes::Splat(RecipePtr recipe) {
  const int rank = recipe->type().shape().rank();
  if (rank == 0 || recipe->type().num_elements() > max_elements_) return recipe;
  std::vector<int64_t> dims = DimsOf(*recipe);
  const int axis = static_cast<int>(Pick(0, rank - 1));
  dims[axis] = Pick(0, 3);
  const int64_t bits =
      Pick(0, (int64_t{1} << std::min(BitWidth(recipe->type().element()), 62)) - 1);
  const RecipePtr splat =
      *Recipe::Splat(*TensorType::Create(recipe->type().element(), *Shape::Create(dims)),
                     static_cast<uint64_t>(bits));
  return *Recipe::Concat({recipe, splat}, axis);
}

// With a scale, and sometimes a zero point, per tensor, per channel or per group.
RecipePtr RandomRecipes::Unpack(RecipePtr recipe) {
  std::vector<int64_t> scales;
  for (int64_t dim : DimsOf(*recipe)) {
    int64_t groups = Pick(0, 2) == 0 ? dim : Pick(1, std::max<int64_t>(dim, 1));
    while (groups > 0 && dim % groups != 0) --groups;
    scales.push_back(groups);
  }
  if (Pick(0, 3) == 0) scales = Pick(0, 1) == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{1};
  const RecipePtr scale =
      ConstantOf(AnyOf({ElementType::kF32, ElementType::kF16, ElementType::kBF16}), scales);
  RecipePtr zero;
  if (Pick(0, 1) == 0) {
    if (Pick(0, 2) == 0) scales = {1, 1};
    zero = ConstantOf(*ElementTypeFromNumber(static_cast<uint32_t>(Pick(1, 18))), scales);
  }
  const ElementType to =
      AnyOf({ElementType::kF32, ElementType::kF16, ElementType::kBF16, ElementType::kI8});
  return Or(Recipe::Unpack(recipe, scale, zero, to), recipe);
}

RecipePtr RandomRecipes::Gather(RecipePtr recipe) {
  if (Pick(0, 1) == 0) return GatherRows(std::move(recipe));
  const ElementType index = AnyOf({ElementType::kU4, ElementType::kU8});
  const RecipePtr indices = Or(Recipe::Convert(recipe, index), recipe);
  const ElementType entry = *ElementTypeFromNumber(static_cast<uint32_t>(Pick(1, 15)));
  const int64_t least = int64_t{1} << BitWidth(index);
  return Or(Recipe::Gather(indices, ConstantOf(entry, {Pick(least, 256)})), recipe);
}

// Some of the tensor's rows, in any order, some of them following each other.
RecipePtr RandomRecipes::GatherRows(RecipePtr recipe) {
  const TensorType& type = recipe->type();
  if (type.shape().rank() == 0 || type.shape().dim(0) == 0 || type.num_elements() > max_elements_) return recipe;
  const int64_t rows = type.shape().dim(0);
  std::vector<int32_t> which(static_cast<size_t>(Pick(0, 2 * rows)));
  for (size_t i = 0; i < which.size(); ++i) {
    const bool next = i > 0 && which[i - 1] + 1 < rows && Pick(0, 1) == 0;
    which[i] = next ? which[i - 1] + 1 : static_cast<int32_t>(Pick(0, rows - 1));
  }
  std::vector<std::byte> bytes(4 * which.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), which.data(), bytes.size());
  const std::string name = "t" + std::to_string(constants_.size());
  const auto indices = Recipe::Constant(
      Source::FromBuffer(std::move(bytes), name), 0,
      *TensorType::Create(ElementType::kI32, *Shape::Create({static_cast<int64_t>(which.size())})), name);
  constants_[name] = *indices;
  return Or(Recipe::Gather(*indices, recipe), recipe);
}

RecipePtr RandomRecipes::UnpackNibbles(RecipePtr recipe) {
  if (recipe->type().num_elements() > max_elements_) return recipe;
  const RecipePtr words = Or(Recipe::Convert(recipe, ElementType::kI32), recipe);
  return Or(Recipe::UnpackNibbles(words, static_cast<NibbleLayout>(Pick(1, 7))), recipe);
}

// A row or more of blocks of any bytes.
RecipePtr RandomRecipes::DequantizeBlocks(RecipePtr recipe) {
  std::optional<kernels::BlockFormat> format;
  while (!format) format = kernels::BlockFormatFromNumber(static_cast<uint32_t>(Pick(0, 24)));
  const auto bytes = static_cast<int64_t>(kernels::BlockBytes(*format));
  const auto length = static_cast<int64_t>(kernels::BlockLength(*format));
  const int64_t blocks = Pick(1, std::max<int64_t>(max_elements_ / length / 4, 2));
  const int64_t rows = Pick(1, 3);
  const ElementType to = AnyOf({ElementType::kF32, ElementType::kF16, ElementType::kBF16});
  return Or(
      Recipe::DequantizeBlocks(ConstantOf(ElementType::kU8, {rows, blocks * bytes}), *format, to),
      recipe);
}

RecipePtr RandomRecipes::CopyBlockPlane(RecipePtr recipe) {
  constexpr kernels::BlockFormat kFormats[] = {
      kernels::BlockFormat::kQ4_0, kernels::BlockFormat::kQ4_1, kernels::BlockFormat::kQ8_0};
  const kernels::BlockFormat format = kFormats[Pick(0, 2)];
  const auto bytes = static_cast<int64_t>(kernels::BlockBytes(format));
  const int64_t blocks = Pick(1, std::max<int64_t>(max_elements_ / 128, 2));
  const auto plane = static_cast<kernels::BlockPlane>(Pick(0, 2));
  return Or(Recipe::CopyBlockPlane(ConstantOf(ElementType::kU8, {Pick(1, 3), blocks * bytes}),
                                   format, plane),
            recipe);
}

}  // namespace npubank::testing

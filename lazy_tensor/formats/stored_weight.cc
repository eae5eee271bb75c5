#include "npubank/lazy_tensor/formats/stored_weight.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe_op.h"

namespace npubank {
namespace {

using kernels::BlockFormat;
using kernels::BlockPlane;

// Numbers and zero points of words as U4 or U8: [K, N] and [K / g, N].
struct Nibbles {
  LazyTensor numbers;
  LazyTensor zeros;
};

NibbleLayout NumbersIn(const WeightForm& form) {
  if (form.kind() == WeightForm::Kind::kAwq) return NibbleLayout::kColumnsAwq;
  return form.bits() == 4 ? NibbleLayout::kRows : NibbleLayout::kByteRows;
}

NibbleLayout ZerosIn(const WeightForm& form) {
  if (form.kind() == WeightForm::Kind::kAwq) return NibbleLayout::kColumnsAwq;
  if (form.bits() == 4) {
    return form.zeros_one_too_small() ? NibbleLayout::kColumnsPlusOne : NibbleLayout::kColumns;
  }
  return form.zeros_one_too_small() ? NibbleLayout::kBytesPlusOne : NibbleLayout::kBytes;
}

absl::StatusOr<Nibbles> Unpacked(const StoredWeight& stored) {
  NPUBANK_ASSIGN_OR_RETURN(LazyTensor numbers, stored.parts[0].UnpackNibbles(NumbersIn(stored.form)));
  NPUBANK_ASSIGN_OR_RETURN(LazyTensor zeros, stored.parts[2].UnpackNibbles(ZerosIn(stored.form)));
  return Nibbles{std::move(numbers), std::move(zeros)};
}

// The numbers of words as one tensor [K, N].
absl::StatusOr<LazyTensor> DequantizedWords(const StoredWeight& stored) {
  NPUBANK_ASSIGN_OR_RETURN(const Nibbles nibbles, Unpacked(stored));
  if (!stored.form.groups_listed()) {
    return nibbles.numbers.Unpack(stored.parts[1], &nibbles.zeros, ElementType::kF32);
  }
  const LazyTensor& groups = stored.parts[3];  // a scale and a zero point for each row by itself
  NPUBANK_ASSIGN_OR_RETURN(const LazyTensor scales, groups.Gather(stored.parts[1]));
  NPUBANK_ASSIGN_OR_RETURN(const LazyTensor zeros, groups.Gather(nibbles.zeros));
  return nibbles.numbers.Unpack(scales, &zeros, ElementType::kF32);
}

// Words that are rows, as I4 or I8 [N, K].
absl::StatusOr<LazyTensor> UnpackedRows(const StoredWeight& stored) {
  NPUBANK_ASSIGN_OR_RETURN(const LazyTensor numbers,
                           stored.parts[0].UnpackNibbles(stored.form.bits() == 4
                                                             ? NibbleLayout::kColumns
                                                             : NibbleLayout::kBytes));
  return numbers.Shift();
}

absl::StatusOr<StoredWeight> PackedRows(const StoredWeight& stored) {
  NPUBANK_ASSIGN_OR_RETURN(LazyTensor numbers, UnpackedRows(stored));
  return StoredWeight{WeightForm::Planes(WeightForm::Offset::kNone),
                      {std::move(numbers), stored.parts[1]}};
}

absl::StatusOr<StoredWeight> PackedWords(const StoredWeight& stored) {
  NPUBANK_ASSIGN_OR_RETURN(const Nibbles nibbles, Unpacked(stored));
  StoredWeight packed = {WeightForm::Planes(WeightForm::Offset::kZero), {}};
  for (const LazyTensor* part : {&nibbles.numbers, &stored.parts[1], &nibbles.zeros}) {
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor by_rows, part->Permute({1, 0}));
    packed.parts.push_back(std::move(by_rows));
  }
  return packed;
}

absl::StatusOr<StoredWeight> PackedBlocks(const StoredWeight& stored) {
  const BlockFormat format = stored.form.blocks();
  const bool minima = kernels::ShapeOf(format, BlockPlane::kMin).has_value();
  StoredWeight packed = {
      WeightForm::Planes(minima ? WeightForm::Offset::kMin : WeightForm::Offset::kNone), {}};
  std::vector<BlockPlane> planes = {BlockPlane::kNumbers, BlockPlane::kScale};
  if (minima) planes.push_back(BlockPlane::kMin);
  for (const BlockPlane which : planes) {
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor plane, stored.parts[0].CopyBlockPlane(format, which));
    packed.parts.push_back(std::move(plane));
  }
  return packed;
}

}  // namespace

absl::StatusOr<TensorType> StoredWeight::Numbers() const {
  std::vector<TensorType> types;
  for (const LazyTensor& part : parts) types.push_back(part.type());
  return form.Numbers(types);
}

absl::StatusOr<LazyTensor> Dequantized(const StoredWeight& stored) {
  switch (stored.form.kind()) {
    case WeightForm::Kind::kPlain:
      break;
    case WeightForm::Kind::kBlocks:
      return stored.parts[0].DequantizeBlocks(stored.form.blocks(), ElementType::kF32);
    case WeightForm::Kind::kPlanes: {
      if (stored.form.offset() == WeightForm::Offset::kMin) {
        return absl::UnimplementedError("planes with minima as one tensor");
      }
      const bool zeros = stored.form.offset() == WeightForm::Offset::kZero;
      return stored.parts[0].Unpack(stored.parts[1], zeros ? &stored.parts[2] : nullptr,
                                    ElementType::kF32);
    }
    case WeightForm::Kind::kGptq:
    case WeightForm::Kind::kAwq: {
      NPUBANK_ASSIGN_OR_RETURN(const LazyTensor matrix, DequantizedWords(stored));
      return matrix.Permute({1, 0});
    }
    case WeightForm::Kind::kRows: {
      NPUBANK_ASSIGN_OR_RETURN(const LazyTensor numbers, UnpackedRows(stored));
      return numbers.Unpack(stored.parts[1], nullptr, ElementType::kF32);
    }
  }
  return stored.parts[0];
}

absl::StatusOr<StoredWeight> Rows(const StoredWeight& stored, int64_t first, int64_t count) {
  NPUBANK_ASSIGN_OR_RETURN(const TensorType numbers, stored.Numbers());
  const int axis = stored.form.by_rows() ? 0 : 1;
  const int64_t all = numbers.shape().dim(axis);
  StoredWeight rows = {stored.form, {}};
  for (const LazyTensor& part : stored.parts) {
    const Shape& shape = part.type().shape();
    if (shape.rank() == 1) {  // the group of each input, which are inputs of every row
      rows.parts.push_back(part);
      continue;
    }
    std::vector<int64_t> start(static_cast<size_t>(shape.rank()), 0);
    std::vector<int64_t> size(shape.dims().begin(), shape.dims().end());
    const int64_t in_one = all / shape.dim(axis);  // rows that an element holds: eight of some words
    if (first % in_one != 0 || count % in_one != 0) {
      return absl::InvalidArgumentError(absl::StrCat("rows ", first, " to ", first + count,
                                                     " are no whole words of ", in_one));
    }
    start[axis] = first / in_one;
    size[axis] = count / in_one;
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor slice, part.Slice(start, size));
    rows.parts.push_back(std::move(slice));
  }
  return rows;
}

absl::StatusOr<StoredWeight> Packed(const StoredWeight& stored) {
  switch (stored.form.kind()) {
    case WeightForm::Kind::kPlain:
    case WeightForm::Kind::kPlanes:
      break;
    case WeightForm::Kind::kBlocks:
      if (kernels::ShapeOf(stored.form.blocks(), BlockPlane::kNumbers)) return PackedBlocks(stored);
      break;
    case WeightForm::Kind::kGptq:
    case WeightForm::Kind::kAwq:
      if (!stored.form.groups_listed()) return PackedWords(stored);
      break;
    case WeightForm::Kind::kRows:
      return PackedRows(stored);
  }
  return stored;
}

}  // namespace npubank

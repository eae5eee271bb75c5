#include "npubank/lazy_tensor/weight_form.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/kernels/convert.h"

namespace npubank {
namespace {

constexpr int kWordBits = 32;
// What a GPTQ form leaves open, bit by bit.
constexpr uint32_t kZerosOneTooSmall = 1;
constexpr uint32_t kEightBits = 2;
constexpr uint32_t kGroupsListed = 4;

bool IsMatrix(const TensorType& type) {
  return type.shape().rank() == 2 && type.num_elements() > 0;
}

bool IsSmallInteger(ElementType element) {
  return element == ElementType::kI4 || element == ElementType::kU4 ||
         element == ElementType::kI8 || element == ElementType::kU8;
}

bool PlanesFit(absl::Span<const TensorType> parts, WeightForm::Offset offset) {
  const TensorType& numbers = parts[0];
  const TensorType& scale = parts[1];
  const bool fits = IsSmallInteger(numbers.element()) &&
                    kernels::IsPlainFloat(scale.element()) &&
                    scale.shape().dim(0) == numbers.shape().dim(0) &&
                    numbers.shape().dim(1) % scale.shape().dim(1) == 0;
  if (!fits || offset == WeightForm::Offset::kNone) return fits;
  const ElementType element =
      offset == WeightForm::Offset::kZero ? numbers.element() : scale.element();
  return parts[2].element() == element && parts[2].shape() == scale.shape();
}

// Words of [K, N] numbers, with a scale and a zero point for each group of rows, and perhaps each row's group.
bool WordsFit(absl::Span<const TensorType> parts, int64_t depth, int64_t columns, int64_t in_word) {
  const TensorType& scale = parts[1];
  const TensorType& zero = parts[2];
  return parts[0].element() == ElementType::kI32 && kernels::IsPlainFloat(scale.element()) &&
         zero.element() == ElementType::kI32 && scale.shape().dim(1) == columns &&
         depth % scale.shape().dim(0) == 0 && zero.shape().dim(0) == scale.shape().dim(0) &&
         zero.shape().dim(1) == columns / in_word && columns % in_word == 0 &&
         (parts.size() < 4 ||
          (parts[3].element() == ElementType::kI32 && parts[3].num_elements() == depth));
}

// Words that are rows of K numbers, with a scale for each group of them.
bool RowsFit(absl::Span<const TensorType> parts, int64_t in_word) {
  const TensorType& scale = parts[1];
  return parts[0].element() == ElementType::kI32 && kernels::IsPlainFloat(scale.element()) &&
         scale.shape().dim(0) == parts[0].shape().dim(0) &&
         parts[0].shape().dim(1) <= INT64_MAX / in_word &&
         parts[0].shape().dim(1) * in_word % scale.shape().dim(1) == 0;
}

}  // namespace

absl::string_view WeightPartName(WeightPart part) {
  switch (part) {
    case WeightPart::kWeight:
      return "weight";
    case WeightPart::kScale:
      return "scale";
    case WeightPart::kZero:
      return "zero";
    case WeightPart::kMin:
      return "min";
    case WeightPart::kGroup:
      return "group";
  }
  return "unknown";
}

WeightForm WeightForm::Blocks(kernels::BlockFormat format) {
  return WeightForm(Kind::kBlocks, static_cast<uint32_t>(format));
}
WeightForm WeightForm::Planes(Offset offset) {
  return WeightForm(Kind::kPlanes, static_cast<uint32_t>(offset));
}
WeightForm WeightForm::Gptq(bool zeros_one_too_small, int bits, bool groups_listed) {
  return WeightForm(Kind::kGptq, (zeros_one_too_small ? kZerosOneTooSmall : 0) |
                                     (bits == 8 ? kEightBits : 0) |
                                     (groups_listed ? kGroupsListed : 0));
}
WeightForm WeightForm::Awq() { return WeightForm(Kind::kAwq, 0); }
WeightForm WeightForm::Rows(int bits) {
  return WeightForm(Kind::kRows, static_cast<uint32_t>(bits));
}

kernels::BlockFormat WeightForm::blocks() const {
  return static_cast<kernels::BlockFormat>(detail_);
}
WeightForm::Offset WeightForm::offset() const { return static_cast<Offset>(detail_); }
bool WeightForm::zeros_one_too_small() const { return (detail_ & kZerosOneTooSmall) != 0; }
bool WeightForm::groups_listed() const {
  return kind_ == Kind::kGptq && (detail_ & kGroupsListed) != 0;
}
int WeightForm::bits() const {
  if (kind_ == Kind::kRows) return static_cast<int>(detail_);
  return kind_ == Kind::kGptq && (detail_ & kEightBits) != 0 ? 8 : 4;
}

std::vector<WeightPart> WeightForm::Parts() const {
  if (kind_ <= Kind::kBlocks) return {WeightPart::kWeight};
  std::vector<WeightPart> parts = {WeightPart::kWeight, WeightPart::kScale};
  const bool planes = kind_ == Kind::kPlanes;
  if (planes ? offset() == Offset::kZero : kind_ != Kind::kRows) parts.push_back(WeightPart::kZero);
  if (planes && offset() == Offset::kMin) parts.push_back(WeightPart::kMin);
  if (groups_listed()) parts.push_back(WeightPart::kGroup);
  return parts;
}

bool WeightForm::Fits(absl::Span<const TensorType> parts) const {
  if (parts.size() != Parts().size()) return false;
  const size_t matrices = parts.size() - (groups_listed() ? 1 : 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i < matrices ? !IsMatrix(parts[i]) : parts[i].shape().rank() != 1) return false;
  }
  const Shape& first = parts[0].shape();
  const int64_t in_word = kWordBits / bits();
  switch (kind_) {
    case Kind::kPlain:
      return true;
    case Kind::kBlocks:
      return parts[0].element() == ElementType::kU8 &&
             first.dim(1) % static_cast<int64_t>(kernels::BlockBytes(blocks())) == 0;
    case Kind::kPlanes:
      return PlanesFit(parts, offset());
    case Kind::kGptq:
      return first.dim(0) <= INT64_MAX / in_word &&
             WordsFit(parts, first.dim(0) * in_word, first.dim(1), in_word);
    case Kind::kAwq:
      return first.dim(1) <= INT64_MAX / in_word &&
             WordsFit(parts, first.dim(0), first.dim(1) * in_word, in_word);
    case Kind::kRows:
      return RowsFit(parts, in_word);
  }
  return false;
}

absl::StatusOr<TensorType> WeightForm::Numbers(absl::Span<const TensorType> parts) const {
  if (plain() && parts.size() == 1) return parts[0];
  if (!Fits(parts)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parts ",
        absl::StrJoin(parts, " ",
                      [](std::string* out, const TensorType& type) {
                        absl::StrAppend(out, type.ToString());
                      }),
        " are no ", ToString()));
  }
  int64_t rows = parts[0].shape().dim(0);
  int64_t columns = parts[0].shape().dim(1);
  if (kind_ == Kind::kBlocks) {
    columns /= static_cast<int64_t>(kernels::BlockBytes(blocks()));
    const auto length = static_cast<int64_t>(kernels::BlockLength(blocks()));
    if (columns > INT64_MAX / length) {
      return absl::InvalidArgumentError(
          absl::StrCat(parts[0].ToString(), " has too many ", ToString()));
    }
    columns *= length;
  }
  if (kind_ == Kind::kGptq) rows *= kWordBits / bits();
  if (kind_ == Kind::kAwq || kind_ == Kind::kRows) columns *= kWordBits / bits();
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create({rows, columns}));
  return TensorType::Create(ElementType::kF32, std::move(shape));
}

std::optional<WeightForm> WeightForm::FromNumber(uint32_t number) {
  const uint32_t detail = number & 0xffff;
  const WeightForm form(static_cast<Kind>(number >> 16), detail);
  switch (number >> 16) {
    case static_cast<uint32_t>(Kind::kPlain):
    case static_cast<uint32_t>(Kind::kAwq):
      return detail == 0 ? std::optional(form) : std::nullopt;
    case static_cast<uint32_t>(Kind::kBlocks):
      return kernels::BlockFormatFromNumber(detail) ? std::optional(form) : std::nullopt;
    case static_cast<uint32_t>(Kind::kPlanes):
      return detail <= static_cast<uint32_t>(Offset::kMin) ? std::optional(form) : std::nullopt;
    case static_cast<uint32_t>(Kind::kGptq):
      return detail <= (kZerosOneTooSmall | kEightBits | kGroupsListed) ? std::optional(form)
                                                                        : std::nullopt;
    case static_cast<uint32_t>(Kind::kRows):
      return detail == 4 || detail == 8 ? std::optional(form) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string WeightForm::ToString() const {
  switch (kind_) {
    case Kind::kPlain:
      return "plain";
    case Kind::kBlocks:
      return absl::StrCat(kernels::BlockFormatName(blocks()), " blocks");
    case Kind::kPlanes:
      return offset() == Offset::kZero  ? "planes with zero points"
             : offset() == Offset::kMin ? "planes with minima"
                                        : "planes";
    case Kind::kGptq:
      return absl::StrCat("GPTQ words", zeros_one_too_small() ? "" : " of version 2",
                          bits() == 8 ? " of bytes" : "", groups_listed() ? " in listed groups" : "");
    case Kind::kAwq:
      return "AWQ words";
    case Kind::kRows:
      return absl::StrCat("rows of ", bits(), "-bit words");
  }
  return "unknown";
}

}  // namespace npubank

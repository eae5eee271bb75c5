#include "npubank/runtime/software_npu/kernels/weight_operand.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/kernels/dequantize.h"
#include "npubank/lazy_tensor/kernels/packing.h"

namespace npubank::software_npu {
namespace {

constexpr int64_t kWordBits = 32;

// Elements [first, first + count) of a tensor as F32. Four-bit ones may start within a byte.
void Widen(ElementType element, const uint8_t* from, int64_t first, int64_t count, float* out) {
  const int bits = BitWidth(element);
  if (bits == 4 && first % 2 != 0 && count > 0) {
    const auto high = static_cast<uint8_t>(from[first / 2] >> 4);
    kernels::Convert(element, &high, ElementType::kF32, out, 1);
    ++first, --count, ++out;
  }
  kernels::Convert(element, from + first * bits / 8, ElementType::kF32, out,
                   static_cast<size_t>(count));
}

// A row of planes, or of words that are rows: numbers and scales, and the zero points or minima, of one row.
class PlaneRows {
 public:
  explicit PlaneRows(const WeightOperand& w)
      : w_(w),
        element_(NumbersOf(w)),
        offset_(OffsetOf(w)),
        group_(w.columns / w.groups),
        scales_(static_cast<size_t>(w.groups)) {
    if (offset_ == WeightForm::Offset::kNone) return;
    // Of words: what all their numbers are too large by.
    offsets_.resize(scales_.size(), static_cast<float>(1 << (BitWidth(element_) - 1)));
  }

  void Decode(int64_t row, float* out) {
    Use(row);
    const bool zeros = offset_ == WeightForm::Offset::kZero;
    Dequantize(row * w_.columns, zeros ? offsets_.data() : nullptr, out);
    if (offset_ == WeightForm::Offset::kMin) AddMinima(out);
  }

  bool ScalesAndOffsets(int64_t row, float* scales, float* offsets) {
    constexpr float kLargest = 0x1p119f;  // times a number of eight bits it is finite
    Use(row);
    for (size_t g = 0; g < scales_.size(); ++g) {
      if (!(std::fabs(scales_[g]) <= kLargest)) return false;
      scales[g] = scales_[g];
      offsets[g] = offset_ == WeightForm::Offset::kNone  ? 0.0f
                   : offset_ == WeightForm::Offset::kMin ? offsets_[g]
                                                         : -offsets_[g] * scales_[g];
    }
    return true;
  }

 private:
  // Makes scales_ and offsets_ those of the row.
  void Use(int64_t row) {
    Widen(w_.scale, w_.parts[1], row * w_.groups, w_.groups, scales_.data());
    if (w_.parts[2] == nullptr) return;
    const bool zeros = offset_ == WeightForm::Offset::kZero;
    Widen(zeros ? element_ : w_.scale, w_.parts[2], row * w_.groups, w_.groups, offsets_.data());
  }

  static WeightForm::Offset OffsetOf(const WeightOperand& w) {
    return w.form.kind() == WeightForm::Kind::kRows ? WeightForm::Offset::kZero : w.form.offset();
  }

  void Dequantize(int64_t first, const float* zeros, float* out) const {
    kernels::QuantizedRun run{.type = element_, .scales = scales_.data(), .zeros = zeros,
                              .group = static_cast<size_t>(group_)};
    int64_t skipped = 0;
    if (BitWidth(element_) == 4 && first % 2 != 0) {
      const auto high = static_cast<uint8_t>(w_.parts[0][first / 2] >> 4);
      run.weights = &high;
      kernels::Dequantize(run, ElementType::kF32, out, 1);
      skipped = 1;
    }
    run.weights = w_.parts[0] + (first + skipped) * BitWidth(element_) / 8;
    run.scales += skipped / group_;
    if (zeros != nullptr) run.zeros += skipped / group_;
    run.first = static_cast<size_t>(skipped % group_);
    if (skipped < w_.columns) {
      kernels::Dequantize(run, ElementType::kF32, out + skipped,
                          static_cast<size_t>(w_.columns - skipped));
    }
  }

  void AddMinima(float* out) const {
    for (const float minimum : offsets_) {
      for (int64_t i = 0; i < group_; ++i) *out++ += minimum;
    }
  }

  const WeightOperand& w_;
  const ElementType element_;
  const WeightForm::Offset offset_;
  const int64_t group_;
  std::vector<float> scales_;
  std::vector<float> offsets_;
};

}  // namespace

// Words lie as planes of unsigned numbers do.
ElementType NumbersOf(const WeightOperand& w) {
  if (w.form.kind() != WeightForm::Kind::kRows) return w.element;
  return w.form.bits() == 4 ? ElementType::kU4 : ElementType::kU8;
}

bool ScalesAndOffsets(const WeightOperand& w, int64_t first, int64_t count, float* scales, float* offsets) {
  if (w.scale == ElementType::kF32) return false;
  PlaneRows rows(w);
  for (int64_t row = first; row < first + count; ++row, scales += w.groups, offsets += w.groups) {
    if (!rows.ScalesAndOffsets(row, scales, offsets)) return false;
  }
  return true;
}

void DecodeRows(const WeightOperand& w, int64_t first, int64_t count, float* out) {
  if (w.form.kind() == WeightForm::Kind::kBlocks) {
    const kernels::BlockFormat format = w.form.blocks();
    const size_t blocks = static_cast<size_t>(w.columns) / kernels::BlockLength(format);
    kernels::DequantizeBlocks(
        format, w.parts[0] + static_cast<size_t>(first) * blocks * kernels::BlockBytes(format),
        ElementType::kF32, out, blocks * static_cast<size_t>(count));
    return;
  }
  PlaneRows rows(w);
  for (int64_t row = first; row < first + count; ++row, out += w.columns) rows.Decode(row, out);
}

namespace {

int64_t ListedGroup(const WeightOperand& w, int64_t row) {
  int32_t group = 0;
  std::memcpy(&group, w.parts[3] + 4 * row, sizeof(group));
  return group;
}

}  // namespace

bool ListedGroupsExist(const WeightOperand& w) {
  if (!w.form.groups_listed()) return true;
  for (int64_t row = 0; row < w.rows; ++row) {
    const int64_t group = ListedGroup(w, row);
    if (group < 0 || group >= w.groups) return false;
  }
  return true;
}

WordDecoder::WordDecoder(const WeightOperand& w, int64_t column, int64_t width)
    : w_(w),
      column_(column),
      width_(width),
      group_rows_(w.rows / w.groups),
      listed_(w.form.groups_listed()),
      scales_(static_cast<size_t>(width * (listed_ ? w.groups : 1))),
      zeros_(scales_.size()),
      nibbles_(static_cast<size_t>(width * kWordBits / 8)) {
  for (int64_t group = 0; listed_ && group < w.groups; ++group) Load(group, group * width);
}

void WordDecoder::Load(int64_t group, int64_t slot) {
  const int bits = w_.form.bits();
  const int64_t first = group * w_.columns + column_;
  Widen(w_.scale, w_.parts[1], first, width_, scales_.data() + slot);
  const uint8_t* const words = w_.parts[2] + first * bits / 8;
  const auto count = static_cast<size_t>(width_ * bits / kWordBits);
  const uint8_t* zeros = nibbles_.data();
  if (w_.form.kind() == WeightForm::Kind::kAwq) {
    kernels::AwqToU4(words, count, nibbles_.data());
  } else if (w_.form.zeros_one_too_small()) {
    (bits == 4 ? kernels::GptqZeros : kernels::GptqByteZeros)(words, count, nibbles_.data());
  } else {
    zeros = words;
  }
  Widen(bits == 4 ? ElementType::kU4 : ElementType::kU8, zeros, 0, width_, zeros_.data() + slot);
}

bool WordDecoder::UseGroupOf(int64_t row) {
  // Listed groups were checked; those of an imported page may have changed since.
  const int64_t group = listed_ ? std::clamp<int64_t>(ListedGroup(w_, row), 0, w_.groups - 1)
                                : row / group_rows_;
  if (group == group_) return false;
  group_ = group;
  if (listed_) {
    slot_ = group * width_;
  } else {
    Load(group, 0);
  }
  return true;
}

void WordDecoder::Decode(int64_t first, int64_t count, float* out) {
  const bool awq = w_.form.kind() == WeightForm::Kind::kAwq;
  const int bits = w_.form.bits();
  const int64_t in_word = kWordBits / bits;
  const auto unpack = bits == 4 ? kernels::GptqRows : kernels::GptqByteRows;
  for (int64_t row = first; row < first + count; ++row, out += width_) {
    UseGroupOf(row);
    if (awq) {
      kernels::AwqToU4(w_.parts[0] + (row * w_.columns + column_) / 2,
                       static_cast<size_t>(width_ / in_word), nibbles_.data());
    } else {
      unpack(w_.parts[0] + (row / in_word * w_.columns + column_) * 4, static_cast<size_t>(width_),
             static_cast<size_t>(row % in_word), 1, nibbles_.data(), static_cast<size_t>(width_));
    }
    const kernels::QuantizedRun run{.type = bits == 4 ? ElementType::kU4 : ElementType::kU8,
                                    .weights = nibbles_.data(), .scales = scales(), .zeros = zeros()};
    kernels::Dequantize(run, ElementType::kF32, out, static_cast<size_t>(width_));
  }
}

}  // namespace npubank::software_npu

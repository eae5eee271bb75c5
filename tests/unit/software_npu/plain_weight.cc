#include "npubank/tests/unit/software_npu/plain_weight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/kernels/blocks.h"

namespace npubank::software_npu {
namespace {

using Kind = WeightForm::Kind;
using Bytes = std::vector<uint8_t>;

constexpr int kAwqPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};  // which nibble holds column 0, 1, 2, ...

float Half(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const float fraction = static_cast<float>(half & 1023);
  const float size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

float ScaleAt(const Bytes& bytes, ElementType element, int64_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + 2 * i, 2);
  if (element == ElementType::kF16) return Half(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

int Nibble(const Bytes& bytes, int64_t i) { return bytes[i / 2] >> i % 2 * 4 & 15; }

int IntegerAt(const Bytes& bytes, ElementType element, int64_t i) {
  switch (element) {
    case ElementType::kU4:
      return Nibble(bytes, i);
    case ElementType::kI4:
      return (Nibble(bytes, i) ^ 8) - 8;
    case ElementType::kI8:
      return static_cast<int8_t>(bytes[i]);
    default:
      return bytes[i];
  }
}

class Maker {
 public:
  Maker(PlainWeight& weight, uint32_t seed) : w_(weight), random_(seed) {}

  Bytes Any(int64_t count) {
    Bytes bytes(static_cast<size_t>(count));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }
  // Numbers between 2^-8 and 2^-4 or so, of either sign.
  Bytes Scales(int64_t count, ElementType element) {
    Bytes bytes(static_cast<size_t>(2 * count));
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t low = element == ElementType::kF16 ? 0x1C00 : 0x3B80;
      const auto bits = static_cast<uint16_t>(low + random_() % 0x0800 + (random_() % 2 << 15));
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
    return bytes;
  }
  // As many rows of each group, in any order.
  Bytes Groups(int64_t rows, int64_t groups) {
    std::vector<int32_t> of_row(static_cast<size_t>(rows));
    for (int64_t k = 0; k < rows; ++k) of_row[k] = static_cast<int32_t>(k / (rows / groups));
    std::shuffle(of_row.begin(), of_row.end(), random_);
    Bytes bytes(4 * of_row.size());
    std::memcpy(bytes.data(), of_row.data(), bytes.size());
    return bytes;
  }
  // Any bytes, but scales that are numbers.
  Bytes Blocks(int64_t blocks) {
    using kernels::BlockFormat;
    const auto size = static_cast<int64_t>(kernels::BlockBytes(w_.form.blocks()));
    Bytes bytes = Any(blocks * size);
    std::vector<int64_t> scales = {0};
    switch (w_.form.blocks()) {
      case BlockFormat::kQ4_1:
      case BlockFormat::kQ5_1:
      case BlockFormat::kQ4_K:
      case BlockFormat::kQ5_K:
        scales = {0, 2};
        break;
      case BlockFormat::kQ2_K:
        scales = {80, 82};
        break;
      case BlockFormat::kQ3_K:
        scales = {108};
        break;
      case BlockFormat::kQ6_K:
        scales = {208};
        break;
      default:
        break;
    }
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t at : scales) {
        const Bytes scale = Scales(1, ElementType::kF16);
        std::memcpy(bytes.data() + b * size + at, scale.data(), 2);
      }
    }
    return bytes;
  }

 private:
  PlainWeight& w_;
  std::mt19937 random_;
};

float PlaneNumber(const PlainWeight& w, int64_t row, int64_t column) {
  const int64_t group = row * w.groups + column / (w.columns / w.groups);
  const auto q = static_cast<float>(IntegerAt(w.parts[0], w.element, row * w.columns + column));
  const float scale = ScaleAt(w.parts[1], w.scale, group);
  volatile float number = q;  // no product and sum in one
  if (w.form.offset() == WeightForm::Offset::kZero) {
    number = q - static_cast<float>(IntegerAt(w.parts[2], w.element, group));
  }
  number = number * scale;
  if (w.form.offset() == WeightForm::Offset::kMin) number = number + ScaleAt(w.parts[2], w.scale, group);
  return number;
}

float RowNumber(const PlainWeight& w, int64_t row, int64_t column) {
  const int64_t at = row * w.columns + column;
  const int q = w.form.bits() == 4 ? Nibble(w.parts[0], at) - 8 : w.parts[0][at] - 128;
  return static_cast<float>(q) *
         ScaleAt(w.parts[1], w.scale, row * w.groups + column / (w.columns / w.groups));
}

int64_t GroupOf(const PlainWeight& w, int64_t k) {
  if (!w.form.groups_listed()) return k / (w.rows / w.groups);
  int32_t group = 0;
  std::memcpy(&group, w.parts[3].data() + 4 * k, sizeof(group));
  return group;
}

float WordNumber(const PlainWeight& w, int64_t k, int64_t n) {
  const int64_t group = GroupOf(w, k);
  if (w.form.bits() == 8) {
    const int zero = (w.parts[2][group * w.columns + n] + (w.form.zeros_one_too_small() ? 1 : 0)) % 256;
    const int q = w.parts[0][(k / 4 * w.columns + n) * 4 + k % 4];
    return static_cast<float>(q - zero) * ScaleAt(w.parts[1], w.scale, group * w.columns + n);
  }
  const bool awq = w.form.kind() == Kind::kAwq;
  const int place = awq ? kAwqPlace[n % 8] : static_cast<int>(n % 8);
  int zero = Nibble(w.parts[2], (group * w.columns + n) / 8 * 8 + place);
  if (!awq && w.form.zeros_one_too_small()) zero = (zero + 1) % 16;
  const int q = awq ? Nibble(w.parts[0], (k * w.columns + n) / 8 * 8 + place)
                    : Nibble(w.parts[0], (k / 8 * w.columns + n) * 8 + k % 8);
  return static_cast<float>(q - zero) * ScaleAt(w.parts[1], w.scale, group * w.columns + n);
}

}  // namespace

WeightOperand PlainWeight::Operand() const {
  WeightOperand operand{.form = form,
                        .element = element,
                        .scale = scale,
                        .rows = rows,
                        .columns = columns,
                        .groups = groups};
  for (size_t i = 0; i < parts.size(); ++i) operand.parts[i] = parts[i].data();
  return operand;
}

std::string PlainWeight::ToString() const {
  return absl::StrCat(form.ToString(), " of ", ElementTypeName(element), "[", rows, ",", columns,
                      "] in ", groups, " groups of ", ElementTypeName(scale), " scales");
}

PlainWeight RandomWeight(WeightForm form, ElementType element, int64_t rows, int64_t columns,
                         int64_t groups, uint32_t seed) {
  PlainWeight w{form, element, seed % 2 == 0 ? ElementType::kF16 : ElementType::kBF16,
                rows, columns, groups, {}, {}};
  Maker make(w, seed);
  w.numbers.resize(static_cast<size_t>(rows * columns));
  if (form.kind() == Kind::kBlocks) {
    const size_t blocks = w.numbers.size() / kernels::BlockLength(form.blocks());
    w.parts.push_back(make.Blocks(static_cast<int64_t>(blocks)));
    kernels::ReferenceDequantizeBlocks(form.blocks(), w.parts[0].data(), ElementType::kF32,
                                       w.numbers.data(), blocks);
    return w;
  }
  const bool planes = form.kind() == Kind::kPlanes;
  const bool row_words = form.kind() == Kind::kRows;
  const int bits = planes ? BitWidth(element) : form.bits();
  const int64_t scales = groups * (form.by_rows() ? rows : columns);
  w.parts.push_back(make.Any((rows * columns * bits + 7) / 8));
  w.parts.push_back(make.Scales(scales, w.scale));
  if (planes && form.offset() == WeightForm::Offset::kMin) {
    w.parts.push_back(make.Scales(scales, w.scale));
  } else if (planes ? form.offset() == WeightForm::Offset::kZero : !row_words) {
    w.parts.push_back(make.Any((scales * bits + 7) / 8));
  }
  if (form.groups_listed()) w.parts.push_back(make.Groups(rows, groups));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      w.numbers[static_cast<size_t>(r * columns + c)] =
          planes      ? PlaneNumber(w, r, c)
          : row_words ? RowNumber(w, r, c)
                      : WordNumber(w, r, c);
    }
  }
  return w;
}

std::vector<PlainWeight> EveryWeight() {
  std::vector<PlainWeight> all;
  uint32_t seed = 0;
  for (uint32_t number = 0; number < 32; ++number) {
    const auto format = kernels::BlockFormatFromNumber(number);
    if (!format) continue;
    const auto length = static_cast<int64_t>(kernels::BlockLength(*format));
    all.push_back(RandomWeight(WeightForm::Blocks(*format), ElementType::kU8, 11, 3 * length, 1, ++seed));
  }
  for (const auto offset :
       {WeightForm::Offset::kNone, WeightForm::Offset::kZero, WeightForm::Offset::kMin}) {
    for (const ElementType element :
         {ElementType::kI4, ElementType::kU4, ElementType::kI8, ElementType::kU8}) {
      // Groups of 32, 64 and 128, of a whole row, and of one; rows that begin within a byte.
      for (const auto& [columns, groups] : {std::pair<int64_t, int64_t>{256, 8}, {256, 4}, {256, 2},
                                            {256, 1}, {96, 96}, {45, 3}, {33, 1}, {7, 7}, {1, 1}}) {
        all.push_back(RandomWeight(WeightForm::Planes(offset), element, 19, columns, groups, ++seed));
      }
    }
  }
  for (const int bits : {4, 8}) {
    for (const auto& [columns, groups] :
         {std::pair<int64_t, int64_t>{256, 8}, {256, 2}, {256, 1}, {96, 96}, {40, 5}, {8, 1}}) {
      all.push_back(RandomWeight(WeightForm::Rows(bits), ElementType::kI32, 19, columns, groups, ++seed));
    }
  }
  all.push_back(RandomWeight(WeightForm::Rows(8), ElementType::kI32, 19, 36, 3, ++seed));
  for (const WeightForm form :
       {WeightForm::Gptq(true), WeightForm::Gptq(false), WeightForm::Gptq(true, 8), WeightForm::Gptq(false, 8),
        WeightForm::Gptq(true, 4, true), WeightForm::Gptq(false, 8, true), WeightForm::Awq()}) {
    for (const auto& [depth, columns, groups] :
         {std::tuple<int64_t, int64_t, int64_t>{256, 72, 8}, {256, 136, 4}, {256, 200, 2}, {128, 64, 1},
          {40, 8, 5}, {16, 2056, 2}, {256, 2304, 2}}) {
      all.push_back(RandomWeight(form, ElementType::kI32, depth, columns, groups, ++seed));
    }
  }
  // Rows of AWQ words are of any number.
  all.push_back(RandomWeight(WeightForm::Awq(), ElementType::kI32, 21, 256, 3, ++seed));
  return all;
}

}  // namespace npubank::software_npu

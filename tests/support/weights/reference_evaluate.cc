#include "npubank/tests/support/weights/reference_evaluate.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <variant>

#include "npubank/lazy_tensor/kernels/convert.h"

namespace npubank::testing {
namespace {

using Bytes = std::vector<std::byte>;
using Index = std::vector<int64_t>;

// A whole tensor whose elements are read and written by index.
struct Whole {
  TensorType type;
  Bytes bytes;

  explicit Whole(const TensorType& of) : type(of), bytes(of.bytes()) {}

  int64_t Flat(const Index& index) const {
    int64_t flat = 0;
    for (int a = 0; a < type.shape().rank(); ++a) flat = flat * type.shape().dim(a) + index[a];
    return flat;
  }
};

void CopyElement(const Whole& from, int64_t in, Whole& to, int64_t out) {
  const int bits = BitWidth(from.type.element());
  if (bits == 4) {
    const int value = static_cast<int>(from.bytes[in / 2] >> (in % 2 * 4)) & 15;
    to.bytes[out / 2] &= out % 2 == 0 ? std::byte{0xf0} : std::byte{0x0f};
    to.bytes[out / 2] |= static_cast<std::byte>(value << (out % 2 * 4));
    return;
  }
  const size_t size = static_cast<size_t>(bits) / 8;
  std::memcpy(to.bytes.data() + out * static_cast<int64_t>(size),
              from.bytes.data() + in * static_cast<int64_t>(size), size);
}

// Calls visit with every index of the shape, in row-major order.
template <typename Visit>
void ForEachIndex(const Shape& shape, Visit visit) {
  Index index(shape.rank(), 0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    visit(index, i);
    for (int a = shape.rank(); a-- > 0;) {
      if (++index[a] < shape.dim(a)) break;
      index[a] = 0;
    }
  }
}

Whole EvaluateWhole(const Recipe& recipe);

struct Operation {
  const Recipe& recipe;
  std::vector<Whole> inputs;
  Whole out;

  void operator()(const ConstantOp& op) {
    const absl::Status status = op.hold->source().Read(op.offset, absl::MakeSpan(out.bytes));
    if (!status.ok()) throw std::runtime_error(std::string(status.message()));
    // The half byte after the last element says nothing; it reads as zero.
    if (BitWidth(out.type.element()) == 4 && out.type.num_elements() % 2 != 0) {
      out.bytes.back() &= std::byte{0x0f};
    }
  }

  void operator()(const ConcatOp& op) {
    int64_t begin = 0;
    for (const Whole& input : inputs) {
      ForEachIndex(input.type.shape(), [&](Index index, int64_t i) {
        index[op.axis] += begin;
        CopyElement(input, i, out, out.Flat(index));
      });
      begin += input.type.shape().dim(op.axis);
    }
  }

  void operator()(const SliceOp& op) {
    ForEachIndex(out.type.shape(), [&](Index index, int64_t i) {
      for (size_t a = 0; a < index.size(); ++a) index[a] += op.start[a];
      CopyElement(inputs[0], inputs[0].Flat(index), out, i);
    });
  }

  void operator()(const ReshapeOp&) { out.bytes = inputs[0].bytes; }

  void operator()(const PermuteOp& op) {
    ForEachIndex(out.type.shape(), [&](const Index& index, int64_t i) {
      Index from(index.size());
      for (size_t a = 0; a < index.size(); ++a) from[op.order[a]] = index[a];
      CopyElement(inputs[0], inputs[0].Flat(from), out, i);
    });
  }

  void operator()(const ConvertOp&) {
    kernels::ReferenceConvert(inputs[0].type.element(), inputs[0].bytes.data(), out.type.element(),
                              out.bytes.data(), static_cast<size_t>(out.type.num_elements()));
  }

  void operator()(const SplatOp& op) {
    Whole one(*TensorType::Create(out.type.element(), Shape()));
    std::memcpy(one.bytes.data(), &op.bits, one.bytes.size());
    for (int64_t i = 0; i < out.type.num_elements(); ++i) CopyElement(one, 0, out, i);
  }

  // (weight - zero) * scale, each operation rounded to F32 apart, then to the output's type.
  void operator()(const UnpackOp&) {
    ForEachIndex(out.type.shape(), [&](const Index& index, int64_t i) {
      volatile float value = AsFloat(inputs[0], i);
      const Whole& scale = inputs[1];
      if (inputs.size() > 2) value = value - AsFloat(inputs[2], GroupOf(index, inputs[2]));
      value = value * AsFloat(scale, GroupOf(index, scale));
      const float rounded = value;
      Whole one(*TensorType::Create(out.type.element(), Shape()));
      kernels::ReferenceConvert(ElementType::kF32, &rounded, out.type.element(), one.bytes.data(),
                                1);
      CopyElement(one, 0, out, i);
    });
  }

  int64_t GroupOf(const Index& index, const Whole& scale) const {
    if (scale.type.num_elements() == 1) return 0;
    Index group = index;
    for (size_t a = 0; a < index.size(); ++a) {
      const int axis = static_cast<int>(a);
      group[a] /= out.type.shape().dim(axis) / scale.type.shape().dim(axis);
    }
    return scale.Flat(group);
  }

  static float AsFloat(const Whole& tensor, int64_t i) {
    Whole one(*TensorType::Create(tensor.type.element(), Shape()));
    CopyElement(tensor, i, one, 0);
    float value = 0;
    kernels::ReferenceConvert(tensor.type.element(), one.bytes.data(), ElementType::kF32, &value,
                              1);
    return value;
  }

  void operator()(const GatherOp&) {
    if (inputs[0].type.element() == ElementType::kI32) {
      ForEachIndex(out.type.shape(), [&](Index index, int64_t i) {
        int32_t row = 0;
        std::memcpy(&row, inputs[0].bytes.data() + 4 * index[0], sizeof(row));
        index[0] = row;
        CopyElement(inputs[1], inputs[1].Flat(index), out, i);
      });
      return;
    }
    for (int64_t i = 0; i < out.type.num_elements(); ++i) {
      CopyElement(inputs[1], Bits(inputs[0], i), out, i);
    }
  }

  void operator()(const ShiftOp&) {
    const int highest = 1 << (BitWidth(out.type.element()) - 1);
    for (int64_t i = 0; i < out.type.num_elements(); ++i) {
      SetBits(out, i, Bits(inputs[0], i) ^ highest);
    }
  }

  // Of a four or eight bit element.
  static int Bits(const Whole& tensor, int64_t i) {
    if (BitWidth(tensor.type.element()) == 8) return static_cast<int>(tensor.bytes[i]);
    return static_cast<int>(tensor.bytes[i / 2] >> (i % 2 * 4)) & 15;
  }

  static void SetBits(Whole& tensor, int64_t i, int bits) {
    Whole one(*TensorType::Create(tensor.type.element(), Shape()));
    one.bytes[0] = static_cast<std::byte>(bits);
    CopyElement(one, 0, tensor, i);
  }

  void operator()(const UnpackNibblesOp& op) {
    constexpr int kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    ForEachIndex(inputs[0].type.shape(), [&](Index index, int64_t i) {
      uint32_t word = 0;
      std::memcpy(&word, inputs[0].bytes.data() + 4 * i, 4);
      const bool down = op.layout == NibbleLayout::kRows || op.layout == NibbleLayout::kByteRows;
      int64_t& packed = down ? index.front() : index.back();
      const bool bytes = op.layout >= NibbleLayout::kBytes;
      const int count = bytes ? 4 : 8;
      const int64_t first = packed * count;
      for (int nibble = 0; nibble < count; ++nibble) {
        int value = static_cast<int>(word >> (32 / count * nibble)) & (bytes ? 255 : 15);
        if (op.layout == NibbleLayout::kColumnsPlusOne) value = (value + 1) & 15;
        if (op.layout == NibbleLayout::kBytesPlusOne) value = (value + 1) & 255;
        packed = first + (op.layout == NibbleLayout::kColumnsAwq ? kAwqOrder[nibble] : nibble);
        SetBits(out, out.Flat(index), value);
      }
    });
  }

  // Rows are whole blocks, so the tensor is one row of them.
  void operator()(const DequantizeBlocksOp& op) {
    const auto length = static_cast<int64_t>(kernels::BlockLength(op.format));
    kernels::ReferenceDequantizeBlocks(op.format, inputs[0].bytes.data(), out.type.element(),
                                       out.bytes.data(),
                                       static_cast<size_t>(out.type.num_elements() / length));
  }

  // The numbers are found again from the values that the blocks decode to.
  void operator()(const CopyBlockPlaneOp& op) {
    const auto block_bytes = static_cast<int64_t>(kernels::BlockBytes(op.format));
    const bool numbers = op.plane == kernels::BlockPlane::kNumbers;
    const bool eight = op.format == kernels::BlockFormat::kQ8_0;
    const int64_t first = op.format == kernels::BlockFormat::kQ4_1 ? 4 : 2;
    const auto byte_at = [&](int64_t at) { return static_cast<int>(inputs[0].bytes[at]); };
    const int64_t per_block = numbers ? 32 : 1;
    for (int64_t i = 0; i < out.type.num_elements(); ++i) {
      const int64_t block = i / per_block * block_bytes;
      const int64_t k = i % per_block;
      if (!numbers) {
        const int64_t at = block + (op.plane == kernels::BlockPlane::kMin ? 2 : 0);
        out.bytes[2 * i] = inputs[0].bytes[at];
        out.bytes[2 * i + 1] = inputs[0].bytes[at + 1];
      } else if (eight) {
        out.bytes[i] = inputs[0].bytes[block + first + k];
      } else {
        const int nibble = byte_at(block + first + k % 16) >> (k < 16 ? 0 : 4) & 15;
        SetBits(out, i, op.format == kernels::BlockFormat::kQ4_0 ? nibble ^ 8 : nibble);
      }
    }
  }
};

Whole EvaluateWhole(const Recipe& recipe) {
  Operation operation{recipe, {}, Whole(recipe.type())};
  for (const RecipePtr& input : recipe.inputs()) {
    operation.inputs.push_back(EvaluateWhole(*input));
  }
  std::visit(operation, recipe.op());
  return std::move(operation.out);
}

}  // namespace

std::vector<std::byte> ReferenceEvaluate(const Recipe& recipe) {
  return EvaluateWhole(recipe).bytes;
}

bool SameElements(const TensorType& type, const Bytes& a, const Bytes& b) {
  if (a == b) return true;
  if (a.size() != b.size() || BitWidth(type.element()) < 8) return false;
  const size_t size = static_cast<size_t>(BitWidth(type.element())) / 8;
  const auto is_nan = [&](const Bytes& bytes, size_t at) {
    double value = 0;
    kernels::ReferenceConvert(type.element(), bytes.data() + at, ElementType::kF64, &value, 1);
    return std::isnan(value);
  };
  for (size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) continue;
    if (!is_nan(a, at) || !is_nan(b, at)) return false;
  }
  return true;
}

}  // namespace npubank::testing

#include "tests/support/reference_evaluate.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "lazy_tensor/kernels/convert.h"

namespace npubank::testing {
namespace {

using Bytes = std::vector<std::byte>;
using Index = std::vector<int64_t>;

// A whole tensor whose elements are read and written by index.
struct Whole {
  TensorType type;
  Bytes bytes;

  explicit Whole(const TensorType& of) : type(of), bytes(static_cast<size_t>(of.bytes())) {}

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

}  // namespace npubank::testing

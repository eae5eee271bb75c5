// Box: a rectangular part of a tensor, how boxes are cut, and where they go. Internal to the
// evaluator.
//
// Everything counts elements. Axes beyond `rank` are unused. A flat position is the row-major index
// of an element in its whole tensor.
#ifndef NPUBANK_LAZY_TENSOR_EVALUATION_BOX_H_
#define NPUBANK_LAZY_TENSOR_EVALUATION_BOX_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

// What `elements` of this width take.
inline uint64_t BytesOf(int64_t elements, int bits) {
  return (static_cast<uint64_t>(elements) * static_cast<uint64_t>(bits) + 7) / 8;
}

using AxisValues = std::array<int64_t, Shape::kMaxRank>;

struct Box {
  int rank = 0;
  AxisValues start = {};
  AxisValues extent = {};

  static Box Whole(const Shape& shape);
  int64_t elements() const;
  absl::Span<const int64_t> extents() const { return {extent.data(), static_cast<size_t>(rank)}; }
};

// Row-major strides of a dense array with these extents.
AxisValues DenseStrides(absl::Span<const int64_t> dims);

// The flat position of the box's first element.
int64_t FlatStart(const Box& box, const Shape& shape);

// The length of the run of elements that follow each other in the tensor, from the box's first
// element on, before the box makes a jump; all of box.elements() when the box is one run.
int64_t RunLength(const Box& box, const Shape& shape);

// Where the elements of a box go: element (i, j, ...) of the box to position
// offset + i * stride[0] + j * stride[1] + ... counted in elements from `data`.
struct Target {
  std::byte* data = nullptr;
  int64_t offset = 0;
  AxisValues stride = {};
  bool stream = false;  // large and not read soon: write past the cache

  // The position of the first element of `piece`, a part of the box `whole` that this is the target
  // of.
  int64_t OffsetOf(const Box& whole, const Box& piece) const;
  // The target of that piece alone.
  Target At(const Box& whole, const Box& piece) const {
    return Target{data, OffsetOf(whole, piece), stride, stream};
  }
  // Whether a box of these extents goes to one dense, row-major stretch.
  bool IsDenseFor(const Box& box) const;
  // That stretch, when `piece` of `whole` goes to one that starts and ends on whole bytes; else
  // null.
  std::byte* WholeBytes(const Box& whole, const Box& piece, int element_bits) const;
};

// Copies a box from strided memory, `in_offset` elements after `in`, to its target.
void CopyBox(const Box& box, int element_bits, const void* in, int64_t in_offset,
             const AxisValues& in_stride, const Target& target);

// The same of elements that become another type on the way; neither has four bits.
void ConvertBox(const Box& box, ElementType from, const void* in, int64_t in_offset,
                const AxisValues& in_stride, ElementType to, const Target& target);

// Cuts the flat range [begin, end) of a tensor into boxes, in order. `first` is the box's distance
// from `begin`; each box is one run. At most 2 x rank - 1 boxes.
absl::Status ForEachBox(const Shape& shape, int64_t begin, int64_t end,
                        absl::FunctionRef<absl::Status(const Box& box, int64_t first)> visit);

// Halves `box` along its outermost axis of extent above 1 until `fits` holds or one element is
// left. Pieces come in row-major order.
absl::Status ForEachPiece(const Box& box, absl::FunctionRef<bool(const Box&)> fits,
                          absl::FunctionRef<absl::Status(const Box& piece)> visit);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_EVALUATION_BOX_H_

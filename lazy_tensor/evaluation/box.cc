#include "npubank/lazy_tensor/evaluation/box.h"

#include <algorithm>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/kernels/permute.h"

namespace npubank {

static_assert(kernels::StridedCopy::kMaxRank == Shape::kMaxRank);

Box Box::Whole(const Shape& shape) {
  Box box;
  box.rank = shape.rank();
  std::copy(shape.dims().begin(), shape.dims().end(), box.extent.begin());
  return box;
}

int64_t Box::elements() const {
  int64_t count = 1;
  for (int64_t size : extents()) count *= size;
  return count;
}

AxisValues DenseStrides(absl::Span<const int64_t> dims) {
  AxisValues strides = {};
  int64_t stride = 1;
  for (size_t a = dims.size(); a-- > 0;) {
    strides[a] = stride;
    stride *= dims[a];
  }
  return strides;
}

int64_t FlatStart(const Box& box, const Shape& shape) {
  int64_t flat = 0;
  for (int a = 0; a < box.rank; ++a) flat = flat * shape.dim(a) + box.start[a];
  return flat;
}

int64_t RunLength(const Box& box, const Shape& shape) {
  int64_t run = 1;
  bool whole = true;  // the axes inside this one are covered completely
  for (int a = box.rank - 1; a >= 0; --a) {
    if (!whole && box.extent[a] != 1) break;
    run *= box.extent[a];
    whole &= box.extent[a] == shape.dim(a);
  }
  return run;
}

int64_t Target::OffsetOf(const Box& whole, const Box& piece) const {
  int64_t position = offset;
  for (int a = 0; a < whole.rank; ++a) position += (piece.start[a] - whole.start[a]) * stride[a];
  return position;
}

bool Target::IsDenseFor(const Box& box) const {
  int64_t dense = 1;
  for (int a = box.rank - 1; a >= 0; --a) {
    if (box.extent[a] != 1 && stride[a] != dense) return false;
    dense *= box.extent[a];
  }
  return true;
}

std::byte* Target::WholeBytes(const Box& whole, const Box& piece, int element_bits) const {
  if (!IsDenseFor(piece)) return nullptr;
  const int64_t bit = OffsetOf(whole, piece) * element_bits;
  if (bit % 8 != 0 || piece.elements() * element_bits % 8 != 0) return nullptr;
  return data + bit / 8;
}

namespace {

kernels::StridedCopy Copy(const Box& box, int64_t in_offset, const AxisValues& in_stride,
                          const Target& target) {
  kernels::StridedCopy copy;
  copy.rank = box.rank;
  copy.extent = box.extent;
  copy.in_stride = in_stride;
  copy.out_stride = target.stride;
  copy.in_offset = in_offset;
  copy.out_offset = target.offset;
  copy.stream = target.stream;
  return copy;
}

}  // namespace

void CopyBox(const Box& box, int element_bits, const void* in, int64_t in_offset,
             const AxisValues& in_stride, const Target& target) {
  kernels::CopyStrided(Copy(box, in_offset, in_stride, target), element_bits, in, target.data);
}

void ConvertBox(const Box& box, ElementType from, const void* in, int64_t in_offset,
                const AxisValues& in_stride, ElementType to, const Target& target) {
  kernels::ConvertStrided(Copy(box, in_offset, in_stride, target), from, in, to, target.data);
}

namespace {

// The part of ForEachBox inside axis `axis`; box.start of the outer axes is set, their extent is 1.
class RangeCutter {
 public:
  RangeCutter(const Shape& shape,
              absl::FunctionRef<absl::Status(const Box& box, int64_t first)> visit)
      : shape_(shape), strides_(DenseStrides(shape.dims())), visit_(visit) {
    box_.rank = shape.rank();
  }

  absl::Status Cut(int axis, int64_t begin, int64_t end) {
    if (begin >= end) return absl::OkStatus();
    if (axis == box_.rank) return Visit(axis);
    const int64_t stride = strides_[axis];
    int64_t first = begin / stride;
    const int64_t last = end / stride;  // first index that is not covered completely
    if (first == last) return Descend(axis, first, begin % stride, end % stride);
    if (begin % stride != 0) {
      NPUBANK_RETURN_IF_ERROR(Descend(axis, first, begin % stride, stride));
      ++first;
    }
    if (first < last) {
      box_.start[axis] = first;
      box_.extent[axis] = last - first;
      NPUBANK_RETURN_IF_ERROR(Visit(axis + 1));
    }
    return Descend(axis, last, 0, end % stride);
  }

 private:
  absl::Status Descend(int axis, int64_t index, int64_t begin, int64_t end) {
    box_.start[axis] = index;
    box_.extent[axis] = 1;
    return Cut(axis + 1, begin, end);
  }

  // All of the axes from `axis` on.
  absl::Status Visit(int axis) {
    for (int a = axis; a < box_.rank; ++a) {
      box_.start[a] = 0;
      box_.extent[a] = shape_.dim(a);
    }
    const int64_t first = done_;
    done_ += box_.elements();
    return visit_(box_, first);
  }

  const Shape& shape_;
  const AxisValues strides_;
  const absl::FunctionRef<absl::Status(const Box&, int64_t)> visit_;
  Box box_;
  int64_t done_ = 0;
};

}  // namespace

absl::Status ForEachBox(const Shape& shape, int64_t begin, int64_t end,
                        absl::FunctionRef<absl::Status(const Box& box, int64_t first)> visit) {
  return RangeCutter(shape, visit).Cut(0, begin, end);
}

absl::Status ForEachPiece(const Box& box, absl::FunctionRef<bool(const Box&)> fits,
                          absl::FunctionRef<absl::Status(const Box& piece)> visit) {
  int axis = 0;
  while (axis < box.rank && box.extent[axis] <= 1) ++axis;
  if (axis == box.rank || fits(box)) return visit(box);
  Box half = box;
  half.extent[axis] = box.extent[axis] / 2;
  NPUBANK_RETURN_IF_ERROR(ForEachPiece(half, fits, visit));
  half.start[axis] += half.extent[axis];
  half.extent[axis] = box.extent[axis] - half.extent[axis];
  return ForEachPiece(half, fits, visit);
}

}  // namespace npubank

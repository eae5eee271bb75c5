#include "npubank/lazy_tensor/kernels/permute.h"

#include <algorithm>
#include <cstring>

#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/kernels/transpose.h"

namespace npubank::kernels {
namespace {

uint8_t LoadNibble(const uint8_t* in, int64_t index) {
  return static_cast<uint8_t>(in[index >> 1] >> (index & 1) * 4 & 15);
}

void CopyNibble(const uint8_t* in, int64_t from, uint8_t* out, int64_t to) {
  const int shift = static_cast<int>(to & 1) * 4;
  const int kept = out[to >> 1] & ~(15 << shift);
  out[to >> 1] = static_cast<uint8_t>(kept | LoadNibble(in, from) << shift);
}

void ReferenceAxis(const StridedCopy& copy, int axis, int element_bits, const uint8_t* in,
                   int64_t from, uint8_t* out, int64_t to) {
  if (axis < copy.rank) {
    for (int64_t i = 0; i < copy.extent[axis]; ++i) {
      ReferenceAxis(copy, axis + 1, element_bits, in, from + i * copy.in_stride[axis], out,
                    to + i * copy.out_stride[axis]);
    }
  } else if (element_bits == 4) {
    CopyNibble(in, from, out, to);
  } else {
    const int64_t bytes = element_bits / 8;
    std::memcpy(out + to * bytes, in + from * bytes, static_cast<size_t>(bytes));
  }
}

struct Axis {
  int64_t extent;
  int64_t in_stride;
  int64_t out_stride;
};

// The same box with the fewest axes, the one with the smallest output stride last. The inner axes
// are taken out for a kernel; what is left is looped over.
struct Plan {
  int rank = 0;
  std::array<Axis, StridedCopy::kMaxRank> axes;
  bool empty = false;
  bool stream = false;

  void Take(int index) {
    std::copy(axes.begin() + index + 1, axes.begin() + rank, axes.begin() + index);
    --rank;
  }
};

Plan Simplify(const StridedCopy& copy) {
  Plan plan;
  plan.stream = copy.stream;
  for (int i = 0; i < copy.rank; ++i) {
    if (copy.extent[i] == 0) plan.empty = true;
    if (copy.extent[i] == 1) continue;
    plan.axes[plan.rank++] = {copy.extent[i], copy.in_stride[i], copy.out_stride[i]};
  }
  const auto outer_first = [](const Axis& a, const Axis& b) { return a.out_stride > b.out_stride; };
  std::stable_sort(plan.axes.begin(), plan.axes.begin() + plan.rank, outer_first);
  for (int i = plan.rank - 2; i >= 0; --i) {
    const Axis inner = plan.axes[i + 1];
    Axis& outer = plan.axes[i];
    if (outer.in_stride != inner.in_stride * inner.extent) continue;
    if (outer.out_stride != inner.out_stride * inner.extent) continue;
    outer = {outer.extent * inner.extent, inner.in_stride, inner.out_stride};
    plan.Take(i + 1);
  }
  return plan;
}

// Calls each(from, to) with the offsets of every point of the axes left in the plan.
template <typename Each>
void ForEachPoint(const Plan& plan, int axis, int64_t from, int64_t to, const Each& each) {
  if (axis == plan.rank) return each(from, to);
  const Axis& along = plan.axes[axis];
  for (int64_t i = 0; i < along.extent; ++i) {
    ForEachPoint(plan, axis + 1, from + i * along.in_stride, to + i * along.out_stride, each);
  }
}

// The last axis with in_stride 1, or -1.
int InputFastAxis(const Plan& plan) {
  for (int i = plan.rank - 1; i >= 0; --i) {
    if (plan.axes[i].in_stride == 1) return i;
  }
  return -1;
}

// Elements of whole bytes that stay what they are.
struct SameBytes {
  int64_t bytes;
  int64_t in_bytes() const { return bytes; }
  int64_t out_bytes() const { return bytes; }
  void Run(const uint8_t* in, uint8_t* out, int64_t count, bool) const {
    std::memcpy(out, in, static_cast<size_t>(count * bytes));
  }
  void TransposePlane(const TransposeShape& shape, const uint8_t* in, uint8_t* out) const {
    Transpose(shape, static_cast<int>(bytes), in, out);
  }
};

// Elements that become another type.
struct Converted {
  ElementType from;
  ElementType to;
  int64_t in_bytes() const { return BitWidth(from) / 8; }
  int64_t out_bytes() const { return BitWidth(to) / 8; }
  void Run(const uint8_t* in, uint8_t* out, int64_t count, bool stream) const {
    Convert(from, in, to, out, static_cast<size_t>(count), stream);
  }
  void TransposePlane(const TransposeShape& shape, const uint8_t* in, uint8_t* out) const {
    TransposeConverted(shape, from, to, in, out);
  }
};

template <typename Elements>
void CopyElements(const Elements& elements, Plan plan, const uint8_t* in, int64_t from,
                  uint8_t* out, int64_t to) {
  const int64_t in_bytes = elements.in_bytes();
  const int64_t out_bytes = elements.out_bytes();
  const bool stream = plan.stream;
  // An element alone is a run of one.
  Axis fast = {1, 1, 1};
  if (plan.rank > 0) fast = plan.axes[plan.rank - 1];
  const int slow = InputFastAxis(plan);
  if (fast.in_stride == 1 && fast.out_stride == 1) {
    if (plan.rank > 0) plan.Take(plan.rank - 1);
    ForEachPoint(plan, 0, from, to, [&](int64_t f, int64_t t) {
      elements.Run(in + f * in_bytes, out + t * out_bytes, fast.extent, stream);
    });
  } else if (fast.out_stride == 1 && slow >= 0) {
    // Rows of the input run along the axis that is fast there.
    const Axis along = plan.axes[slow];
    const TransposeShape shape = {.rows = fast.extent,
                                  .columns = along.extent,
                                  .in_pitch = fast.in_stride * in_bytes,
                                  .out_pitch = along.out_stride * out_bytes,
                                  .stream = stream};
    plan.Take(plan.rank - 1);
    plan.Take(slow);
    ForEachPoint(plan, 0, from, to, [&](int64_t f, int64_t t) {
      elements.TransposePlane(shape, in + f * in_bytes, out + t * out_bytes);
    });
  } else {
    ForEachPoint(plan, 0, from, to, [&](int64_t f, int64_t t) {
      elements.Run(in + f * in_bytes, out + t * out_bytes, 1, false);
    });
  }
}

// `count` nibbles that lie one after the other on both sides. Whole bytes of `out` are only
// written; the half of a byte at either end joins what is there.
void CopyNibbleRun(const uint8_t* in, int64_t from, uint8_t* out, int64_t to, int64_t count) {
  if (count > 0 && to % 2 != 0) {
    CopyNibble(in, from++, out, to++);
    --count;
  }
  const uint8_t* source = in + (from >> 1);
  uint8_t* target = out + (to >> 1);
  const int64_t pairs = count / 2;
  if (from % 2 == 0) {
    if (pairs > 0) std::memcpy(target, source, static_cast<size_t>(pairs));
  } else {
    for (int64_t i = 0; i < pairs; ++i) {
      target[i] = static_cast<uint8_t>(source[i] >> 4 | source[i + 1] << 4);
    }
  }
  if (count % 2 != 0) CopyNibble(in, from + count - 1, out, to + count - 1);
}

// The box of two axes, one fast on either side, transposed. A last odd row or column goes by itself.
void TurnNibbles(const Axis& fast, const Axis& along, bool stream, const uint8_t* in, int64_t from,
                 uint8_t* out, int64_t to) {
  const int64_t even = fast.in_stride | along.out_stride | from | to;
  const int64_t rows = even % 2 == 0 ? fast.extent & ~int64_t{1} : 0;
  const int64_t columns = rows > 0 ? along.extent & ~int64_t{1} : 0;
  if (columns > 0) {
    TransposeNibbles({rows, columns, fast.in_stride / 2, along.out_stride / 2, stream},
                     in + from / 2, out + to / 2);
  }
  for (int64_t r = 0; r < fast.extent; ++r) {
    for (int64_t c = r < rows ? columns : 0; c < along.extent; ++c) {
      CopyNibble(in, from + r * fast.in_stride + c, out, to + r + c * along.out_stride);
    }
  }
}

void CopyNibbles(Plan plan, const uint8_t* in, int64_t from, uint8_t* out, int64_t to) {
  Axis fast = {1, 1, 1};
  if (plan.rank > 0) fast = plan.axes[plan.rank - 1];
  const int slow = InputFastAxis(plan);
  if (fast.in_stride == 1 && fast.out_stride == 1) {
    if (plan.rank > 0) plan.Take(plan.rank - 1);
    ForEachPoint(plan, 0, from, to,
                 [&](int64_t f, int64_t t) { CopyNibbleRun(in, f, out, t, fast.extent); });
  } else if (fast.out_stride == 1 && slow >= 0) {
    const Axis along = plan.axes[slow];
    const bool stream = plan.stream;
    plan.Take(plan.rank - 1);
    plan.Take(slow);
    ForEachPoint(plan, 0, from, to,
                 [&](int64_t f, int64_t t) { TurnNibbles(fast, along, stream, in, f, out, t); });
  } else {
    ForEachPoint(plan, 0, from, to, [&](int64_t f, int64_t t) { CopyNibble(in, f, out, t); });
  }
}

}  // namespace

void ReferenceCopyStrided(const StridedCopy& copy, int element_bits, const void* in, void* out) {
  ReferenceAxis(copy, 0, element_bits, static_cast<const uint8_t*>(in), copy.in_offset,
                static_cast<uint8_t*>(out), copy.out_offset);
}

void CopyStrided(const StridedCopy& copy, int element_bits, const void* in, void* out) {
  const Plan plan = Simplify(copy);
  if (plan.empty) return;
  const uint8_t* source = static_cast<const uint8_t*>(in);
  uint8_t* target = static_cast<uint8_t*>(out);
  if (element_bits == 4) {
    CopyNibbles(plan, source, copy.in_offset, target, copy.out_offset);
  } else {
    CopyElements(SameBytes{element_bits / 8}, plan, source, copy.in_offset, target,
                 copy.out_offset);
  }
}

void ConvertStrided(const StridedCopy& copy, ElementType from, const void* in, ElementType to,
                    void* out) {
  const Plan plan = Simplify(copy);
  if (plan.empty) return;
  CopyElements(Converted{from, to}, plan, static_cast<const uint8_t*>(in), copy.in_offset,
               static_cast<uint8_t*>(out), copy.out_offset);
}

}  // namespace npubank::kernels

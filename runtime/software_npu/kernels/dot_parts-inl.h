// Dot products of one row of x with rows of a weight in parts: numbers go from their bytes into the sums in
// registers, for one Highway target. Included by each file that is compiled per target.
//
// What comes out is bit for bit what DotTile makes of the same numbers in F32: lane l adds k = l, l + L, ... in
// order, and each number is rounded as DecodeRows rounds it. With F16 and BF16 scales that takes one operation: a
// scale has at most 11 bits and q and a zero point 8, so their products with it are exact in F32, and
//   (q - zero) * scale = round(q * scale - zero * scale)      q * scale + min = round(q * scale + min)
// of which the right sides are one multiplication with addition, fused or not. Scales of blocks are finite.
#if defined(NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_PARTS_INL_H_
#undef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_PARTS_INL_H_
#else
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <vector>

#include "npubank/runtime/software_npu/kernels/dot_blocks-inl.h"
#include "npubank/runtime/software_npu/kernels/part_numbers-inl.h"
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows whose sums are made at once, so that the additions do not wait for each other.
constexpr int kPartRows = 4;

// Rows [row, row + Rows) of planes, under scales and offsets of each, w.groups a row.
template <class Numbers, int Rows>
HWY_INLINE void DotPlaneRows(const WeightOperand& w, const float* x, int64_t row, const float* row_scales,
                             const float* row_offsets, float* out) {
  const PartFloats d;
  const int64_t group = w.columns / w.groups;
  hn::Vec<PartFloats> sums[Rows], scales[Rows], offsets[Rows];
  const uint8_t* from[Rows];
  for (int r = 0; r < Rows; ++r) {
    sums[r] = hn::Zero(d);
    from[r] = w.parts[0] + (row + r) * w.columns * Numbers::kBits / 8;
  }
  for (int64_t g = 0; g < w.groups; ++g) {
    for (int r = 0; r < Rows; ++r) {
      scales[r] = hn::Set(d, row_scales[r * w.groups + g]);
      offsets[r] = hn::Set(d, row_offsets[r * w.groups + g]);
    }
    AddRun<Numbers>(x + g * group, from, group, scales, offsets, sums);
    for (int r = 0; r < Rows; ++r) from[r] += group * Numbers::kBits / 8;
  }
  for (int r = 0; r < Rows; ++r) out[r] = hn::GetLane(hn::SumOfLanes(d, sums[r]));
}

// Whether DotParts has numbers of this form, vectors of which lie under one scale.
HWY_INLINE bool DotsInRegisters(const WeightOperand& w) {
  if (kPartLanes < 4 || kPartLanes > 16) return false;
  switch (w.form.kind()) {
    case WeightForm::Kind::kBlocks:
      return HasDotOf(w.form.blocks());
    case WeightForm::Kind::kPlanes:
    case WeightForm::Kind::kRows:
      return w.columns / w.groups % kPartLanes == 0;
    default:
      return false;
  }
}

template <int Rows>
HWY_INLINE void DotPlanes(const WeightOperand& w, const float* x, int64_t row, const float* scales,
                          const float* offsets, float* out) {
  switch (NumbersOf(w)) {
    case ElementType::kI4:
      return DotPlaneRows<AsI4, Rows>(w, x, row, scales, offsets, out);
    case ElementType::kU4:
      return DotPlaneRows<AsU4, Rows>(w, x, row, scales, offsets, out);
    case ElementType::kI8:
      return DotPlaneRows<AsI8, Rows>(w, x, row, scales, offsets, out);
    default:
      return DotPlaneRows<AsU8, Rows>(w, x, row, scales, offsets, out);
  }
}

// x times rows [row, row + Rows). False, with nothing done, where the scales would round otherwise.
// `room` is for the scales of kPartRows rows.
template <int Rows>
HWY_INLINE bool DotParts(const WeightOperand& w, const float* x, int64_t row, std::vector<float>& room,
                         float* out) {
  if (w.form.kind() == WeightForm::Kind::kBlocks) {
    DotBlocks<Rows>(w, x, row, out);
    return true;
  }
  room.resize(static_cast<size_t>(2 * kPartRows * w.groups));
  float* const scales = room.data();
  float* const offsets = scales + kPartRows * w.groups;
  if (!ScalesAndOffsets(w, row, Rows, scales, offsets)) return false;
  DotPlanes<Rows>(w, x, row, scales, offsets, out);
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_PARTS_INL_H_

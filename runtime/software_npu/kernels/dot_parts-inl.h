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
#include <cstring>
#include <vector>

#include "npubank/runtime/software_npu/kernels/load_weight-inl.h"
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PartFloats = hn::ScalableTag<float>;
using PartWords = hn::RebindToUnsigned<PartFloats>;
using PartIntegers = hn::RebindToSigned<PartFloats>;
constexpr int64_t kPartLanes = static_cast<int64_t>(hn::MaxLanes(PartFloats()));
// Rows whose sums are made at once, so that the additions do not wait for each other.
constexpr int kPartRows = 4;

// As many four-bit numbers as a vector has lanes, the word of each in its lane.
HWY_INLINE hn::Vec<PartWords> WordOfEach(const uint8_t* from) {
  const PartWords d;
  if constexpr (kPartLanes <= 8) {
    uint32_t word = 0;
    std::memcpy(&word, from, static_cast<size_t>(kPartLanes) / 2);
    return hn::Set(d, word);
  } else {
    alignas(64) static constexpr int32_t kWord[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t words = 0;
    std::memcpy(&words, from, sizeof(words));
    const auto both = hn::BitCast(d, hn::Set(hn::Repartition<uint64_t, PartFloats>(), words));
    return hn::TableLookupLanes(both, hn::SetTableIndices(d, kWord));
  }
}

// Vectors of numbers as they lie in a plane.
struct AsU4 {
  static constexpr int kBits = 4;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    alignas(64) static constexpr uint32_t kShift[16] = {0, 4, 8, 12, 16, 20, 24, 28,
                                                        0, 4, 8, 12, 16, 20, 24, 28};
    const PartWords d;
    const auto number = hn::And(WordOfEach(from) >> hn::Load(d, kShift), hn::Set(d, 15));
    return hn::ConvertTo(PartFloats(), hn::BitCast(PartIntegers(), number));
  }
};
struct AsI4 {
  static constexpr int kBits = 4;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    alignas(64) static constexpr uint32_t kShift[16] = {28, 24, 20, 16, 12, 8, 4, 0,
                                                        28, 24, 20, 16, 12, 8, 4, 0};
    const auto high = WordOfEach(from) << hn::Load(PartWords(), kShift);
    return hn::ConvertTo(PartFloats(), hn::ShiftRight<28>(hn::BitCast(PartIntegers(), high)));
  }
};
struct AsU8 {
  static constexpr int kBits = 8;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    const auto bytes = hn::LoadU(hn::Rebind<uint8_t, PartFloats>(), from);
    return hn::ConvertTo(PartFloats(), hn::PromoteTo(PartIntegers(), bytes));
  }
};
struct AsI8 {
  static constexpr int kBits = 8;
  static HWY_INLINE hn::Vec<PartFloats> Load(const uint8_t* from) {
    const auto bytes =
        hn::LoadU(hn::Rebind<int8_t, PartFloats>(), reinterpret_cast<const int8_t*>(from));
    return hn::ConvertTo(PartFloats(), hn::PromoteTo(PartIntegers(), bytes));
  }
};

// Of Rows rows: sums[r] += x * (q * scales[r] + offsets[r]) over `count` numbers, whole vectors of them.
template <class Numbers, int Rows>
HWY_INLINE void AddRun(const float* HWY_RESTRICT x, const uint8_t* const (&from)[Rows], int64_t count,
                       const hn::Vec<PartFloats> (&scales)[Rows], const hn::Vec<PartFloats> (&offsets)[Rows],
                       hn::Vec<PartFloats> (&sums)[Rows]) {
  const PartFloats d;
  for (int64_t k = 0; k < count; k += kPartLanes) {
    const auto xs = hn::LoadU(d, x + k);
    for (int r = 0; r < Rows; ++r) {
      const auto q = Numbers::Load(from[r] + k * Numbers::kBits / 8);
      sums[r] = hn::MulAdd(xs, hn::MulAdd(q, scales[r], offsets[r]), sums[r]);
    }
  }
}

// The sixteen numbers of a Q4_0 block in its low nibbles, or those in its high ones.
template <bool High, int Rows>
HWY_INLINE void AddHalfBlock(const float* HWY_RESTRICT x, const uint8_t* const (&from)[Rows],
                             const hn::Vec<PartFloats> (&scales)[Rows],
                             const hn::Vec<PartFloats> (&offsets)[Rows], hn::Vec<PartFloats> (&sums)[Rows]) {
  const PartFloats d;
  const PartIntegers integers;
  for (int64_t k = 0; k < 16; k += kPartLanes) {
    const auto xs = hn::LoadU(d, x + k);
    for (int r = 0; r < Rows; ++r) {
      const auto bytes = hn::PromoteTo(integers, hn::LoadU(hn::Rebind<uint8_t, PartFloats>(), from[r] + k));
      const auto number = High ? hn::ShiftRight<4>(bytes) : hn::And(bytes, hn::Set(integers, 15));
      sums[r] = hn::MulAdd(xs, hn::MulAdd(hn::ConvertTo(d, number), scales[r], offsets[r]), sums[r]);
    }
  }
}

// Rows [row, row + Rows) of Q4_0 or Q8_0 blocks.
template <bool Four, int Rows>
HWY_INLINE void DotBlockRows(const WeightOperand& w, const float* x, int64_t row, float* out) {
  constexpr int64_t kLength = 32;
  constexpr int64_t kBytes = Four ? 18 : 34;
  const PartFloats d;
  hn::Vec<PartFloats> sums[Rows], scales[Rows], offsets[Rows];
  const uint8_t* from[Rows];
  for (int r = 0; r < Rows; ++r) {
    sums[r] = offsets[r] = hn::Zero(d);
    from[r] = w.parts[0] + (row + r) * (w.columns / kLength) * kBytes;
  }
  for (int64_t k = 0; k < w.columns; k += kLength) {
    for (int r = 0; r < Rows; ++r) {
      const float scale = LoadOne(reinterpret_cast<const Half*>(from[r]));
      scales[r] = hn::Set(d, scale);
      if constexpr (Four) offsets[r] = hn::Set(d, -8 * scale);
      from[r] += 2;
    }
    if constexpr (Four) {
      AddHalfBlock<false>(x + k, from, scales, offsets, sums);
      AddHalfBlock<true>(x + k + kLength / 2, from, scales, offsets, sums);
    } else {
      AddRun<AsI8>(x + k, from, kLength, scales, offsets, sums);
    }
    for (int r = 0; r < Rows; ++r) from[r] += kBytes - 2;
  }
  for (int r = 0; r < Rows; ++r) out[r] = hn::GetLane(hn::SumOfLanes(d, sums[r]));
}

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
      return w.form.blocks() == kernels::BlockFormat::kQ4_0 ||
             w.form.blocks() == kernels::BlockFormat::kQ8_0;
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
    const bool four = w.form.blocks() == kernels::BlockFormat::kQ4_0;
    four ? DotBlockRows<true, Rows>(w, x, row, out) : DotBlockRows<false, Rows>(w, x, row, out);
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

// Dot products of one row of x with rows of blocks: numbers go from their bytes into the sums in registers, for one
// Highway target. Included by each file that is compiled per target.
//
// Bit for bit what dot_parts-inl.h promises. In blocks of 256 a scale is a product itself: d, of 11 bits, with an integer of
// at most 7 is exact in F32, and so is that times a number of 6 bits. The block's d is finite.
#if defined(NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_BLOCKS_INL_H_
#undef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_BLOCKS_INL_H_
#else
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_BLOCKS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "npubank/runtime/software_npu/kernels/load_weight-inl.h"
#include "npubank/runtime/software_npu/kernels/part_numbers-inl.h"
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float HalfAt(const uint8_t* from) { return LoadOne(reinterpret_cast<const Half*>(from)); }

// What sixteen bytes times `scale`, a number for each of them or one for all, are.
template <typename Byte, class Scale>
HWY_INLINE void ScaleSixteen(const Byte* bytes, const Scale& scale, float (&out)[16]) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int32_t, decltype(d)> integers;
  for (size_t i = 0; i < 16; i += hn::Lanes(d)) {
    const auto wide = hn::PromoteTo(integers, hn::LoadU(hn::Rebind<Byte, decltype(d)>(), bytes + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, wide), scale(i)), d, out + i);
  }
}

// Number `at` of each row, in every lane.
template <int Rows>
HWY_INLINE void Spread(const float (&numbers)[Rows][16], size_t at, hn::Vec<PartFloats> (&spread)[Rows]) {
  for (int r = 0; r < Rows; ++r) spread[r] = hn::Set(PartFloats(), numbers[r][at]);
}

// Of blocks that begin with their scale d: the scale, what each number is less by (Less times d), and the numbers.
template <int Less, int Rows>
HWY_INLINE void BehindScale(const uint8_t* const (&blocks)[Rows], hn::Vec<PartFloats> (&scales)[Rows],
                            hn::Vec<PartFloats> (&offsets)[Rows], const uint8_t* (&numbers)[Rows]) {
  const PartFloats d;
  for (int r = 0; r < Rows; ++r) {
    const float scale = HalfAt(blocks[r]);
    scales[r] = hn::Set(d, scale);
    offsets[r] = Less == 0 ? hn::Zero(d) : hn::Set(d, -Less * scale);
    numbers[r] = blocks[r] + 2;
  }
}

// What one block of each of Rows rows adds to their sums.
struct Q4_0Block {
  static constexpr int64_t kLength = 32, kBytes = 18;
  template <int Rows>
  static HWY_INLINE void Add(const float* HWY_RESTRICT x, const uint8_t* const (&blocks)[Rows],
                             hn::Vec<PartFloats> (&sums)[Rows]) {
    hn::Vec<PartFloats> scales[Rows], offsets[Rows];
    const uint8_t* from[Rows];
    BehindScale<8>(blocks, scales, offsets, from);
    AddRun<AsNibbles<false>>(x, from, 16, scales, offsets, sums);
    AddRun<AsNibbles<true>>(x + 16, from, 16, scales, offsets, sums);
  }
};

struct Q8_0Block {
  static constexpr int64_t kLength = 32, kBytes = 34;
  template <int Rows>
  static HWY_INLINE void Add(const float* HWY_RESTRICT x, const uint8_t* const (&blocks)[Rows],
                             hn::Vec<PartFloats> (&sums)[Rows]) {
    hn::Vec<PartFloats> scales[Rows], offsets[Rows];
    const uint8_t* from[Rows];
    BehindScale<0>(blocks, scales, offsets, from);
    AddRun<AsI8>(x, from, kLength, scales, offsets, sums);
  }
};

// Eight scales and minima of 32 numbers each; 64 numbers in 32 bytes, the first 32 in their low halves.
struct Q4_KBlock {
  static constexpr int64_t kLength = 256, kBytes = 144;

  // The eight scales, and what their minima add. Six bits each: of the first four in two words, of the others in parts,
  // four in the third word and two above the six of the first and second.
  static HWY_INLINE void Scales(const uint8_t* block, float (&scales)[16]) {
    constexpr uint32_t kSix = 0x3F3F3F3F, kFour = 0x0F0F0F0F, kTwo = 0x30303030;
    const hn::CappedTag<float, 16> d;
    uint32_t words[3];
    std::memcpy(words, block + 4, sizeof(words));
    const uint32_t numbers[] = {words[0] & kSix, (words[2] & kFour) | (words[0] >> 2 & kTwo),
                                words[1] & kSix, (words[2] >> 4 & kFour) | (words[1] >> 2 & kTwo)};
    const auto scale = hn::Set(d, HalfAt(block));
    const auto minimum = hn::Set(d, -HalfAt(block + 2));
    ScaleSixteen(reinterpret_cast<const uint8_t*>(numbers), [&](size_t i) HWY_ATTR {
      return hn::IfThenElse(hn::FirstN(d, i < 8 ? 8 - i : 0), scale, minimum);
    }, scales);
  }

  template <int Rows>
  static HWY_INLINE void Add(const float* HWY_RESTRICT x, const uint8_t* const (&blocks)[Rows],
                             hn::Vec<PartFloats> (&sums)[Rows]) {
    float all[Rows][16];
    hn::Vec<PartFloats> scales[Rows], offsets[Rows];
    const uint8_t* from[Rows];
    for (int r = 0; r < Rows; ++r) {
      Scales(blocks[r], all[r]);
      from[r] = blocks[r] + 16;
    }
    for (size_t at = 0; at < 8; at += 2, x += 64) {
      Spread(all, at, scales);
      Spread(all, at + 8, offsets);
      AddRun<AsNibbles<false>>(x, from, 32, scales, offsets, sums);
      Spread(all, at + 1, scales);
      Spread(all, at + 9, offsets);
      AddRun<AsNibbles<true>>(x + 32, from, 32, scales, offsets, sums);
      for (int r = 0; r < Rows; ++r) from[r] += 32;
    }
  }
};

// Two halves of 128 numbers, in four quarters of 32: four bits in 64 bytes, two more in 32. A scale for each 16; less 32.
struct Q6_KBlock {
  static constexpr int64_t kLength = 256, kBytes = 210;

  // The numbers of one half, whose four bits begin at `fours` and whose two at `twos`. Bytes are shifted in pairs, and what
  // comes from a neighbour is masked away with what is not wanted.
  static HWY_INLINE void Half(const uint8_t* fours, const uint8_t* twos, int8_t* q) {
    const hn::CappedTag<uint8_t, 32> d;
    const std::conditional_t<(kPartLanes > 1), hn::Repartition<uint16_t, decltype(d)>, decltype(d)> pairs;
    const hn::RebindToSigned<decltype(d)> integers;
    const auto put = [&](auto four, auto two, int8_t* to) HWY_ATTR {
      const auto number = hn::OrAnd(hn::And(hn::BitCast(d, four), hn::Set(d, 15)), hn::BitCast(d, two), hn::Set(d, 48));
      hn::StoreU(hn::BitCast(integers, hn::Sub(number, hn::Set(d, 32))), integers, to);
    };
    for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
      const auto first = hn::BitCast(pairs, hn::LoadU(d, fours + i));
      const auto second = hn::BitCast(pairs, hn::LoadU(d, fours + 32 + i));
      const auto two = hn::BitCast(pairs, hn::LoadU(d, twos + i));
      put(first, hn::ShiftLeft<4>(two), q + i);
      put(second, hn::ShiftLeft<2>(two), q + 32 + i);
      put(hn::ShiftRight<4>(first), two, q + 64 + i);
      put(hn::ShiftRight<4>(second), hn::ShiftRight<2>(two), q + 96 + i);
    }
  }

  template <int Rows>
  static HWY_INLINE void Add(const float* HWY_RESTRICT x, const uint8_t* const (&blocks)[Rows],
                             hn::Vec<PartFloats> (&sums)[Rows]) {
    float all[Rows][16];
    alignas(64) int8_t q[Rows][kLength];
    hn::Vec<PartFloats> scales[Rows], offsets[Rows];
    const uint8_t* from[Rows];
    for (int r = 0; r < Rows; ++r) {
      const auto scale = hn::Set(hn::CappedTag<float, 16>(), HalfAt(blocks[r] + 208));
      ScaleSixteen(reinterpret_cast<const int8_t*>(blocks[r]) + 192, [&](size_t) HWY_ATTR { return scale; }, all[r]);
      Half(blocks[r], blocks[r] + 128, q[r]);
      Half(blocks[r] + 64, blocks[r] + 160, q[r] + 128);
      offsets[r] = hn::Zero(PartFloats());
      from[r] = reinterpret_cast<const uint8_t*>(q[r]);
    }
    for (size_t at = 0; at < 16; ++at, x += 16) {
      Spread(all, at, scales);
      AddRun<AsI8>(x, from, 16, scales, offsets, sums);
      for (int r = 0; r < Rows; ++r) from[r] += 16;
    }
  }
};

// x times rows [row, row + Rows) of blocks.
template <class Block, int Rows>
HWY_INLINE void DotBlockRows(const WeightOperand& w, const float* x, int64_t row, float* out) {
  const PartFloats d;
  hn::Vec<PartFloats> sums[Rows];
  const uint8_t* blocks[Rows];
  for (int r = 0; r < Rows; ++r) {
    sums[r] = hn::Zero(d);
    blocks[r] = w.parts[0] + (row + r) * (w.columns / Block::kLength) * Block::kBytes;
  }
  for (int64_t k = 0; k < w.columns; k += Block::kLength) {
    Block::template Add<Rows>(x + k, blocks, sums);
    for (int r = 0; r < Rows; ++r) blocks[r] += Block::kBytes;
  }
  for (int r = 0; r < Rows; ++r) out[r] = hn::GetLane(hn::SumOfLanes(d, sums[r]));
}

// The formats that DotBlocks knows.
HWY_INLINE bool HasDotOf(kernels::BlockFormat format) {
  switch (format) {
    case kernels::BlockFormat::kQ4_0:
    case kernels::BlockFormat::kQ8_0:
    case kernels::BlockFormat::kQ4_K:
    case kernels::BlockFormat::kQ6_K:
      return true;
    default:
      return false;
  }
}

template <int Rows>
HWY_INLINE void DotBlocks(const WeightOperand& w, const float* x, int64_t row, float* out) {
  switch (w.form.blocks()) {
    case kernels::BlockFormat::kQ4_0:
      return DotBlockRows<Q4_0Block, Rows>(w, x, row, out);
    case kernels::BlockFormat::kQ8_0:
      return DotBlockRows<Q8_0Block, Rows>(w, x, row, out);
    case kernels::BlockFormat::kQ4_K:
      return DotBlockRows<Q4_KBlock, Rows>(w, x, row, out);
    default:
      return DotBlockRows<Q6_KBlock, Rows>(w, x, row, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_DOT_BLOCKS_INL_H_

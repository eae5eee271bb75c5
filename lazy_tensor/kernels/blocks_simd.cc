// DequantizeBlocks, compiled once per instruction set: each format is spread into signed bytes with
// a scale and an offset for every few of them, and one loop does the arithmetic of all.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "npubank/lazy_tensor/kernels/block_layout.h"
#include "npubank/lazy_tensor/kernels/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/lazy_tensor/kernels/blocks_simd.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#if HWY_TARGET != HWY_SCALAR
#include "npubank/lazy_tensor/kernels/simd-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void DequantizeRun(BlockFormat format, const uint8_t* in, ElementType to, void* out, size_t blocks,
                   bool) {
  ReferenceDequantizeBlocks(format, in, to, out, blocks);
}

#else

// weight i = q[i] * scale[i / group] + offset[i / group]
struct Plain {
  alignas(64) int8_t q[kChunk];
  float scale[kChunk / 16] = {};  // half of them are room where 32 share one
  float offset[kChunk / 16] = {};
};

// What changes no sum, not even the sign of a zero.
constexpr float kNoOffset = -0.0f;

using D16 = hn::FixedTag<uint8_t, 16>;
using V16 = hn::Vec<D16>;

HWY_INLINE V16 Load16(const uint8_t* in) { return hn::LoadU(D16(), in); }
HWY_INLINE V16 Low(V16 bytes) { return hn::And(bytes, hn::Set(D16(), 15)); }
HWY_INLINE V16 High(V16 bytes) { return hn::ShiftRight<4>(bytes); }
// Takes `bias` off and stores.
HWY_INLINE void Put(V16 bytes, uint8_t bias, int8_t* q) {
  const hn::RebindToSigned<D16> d;
  hn::StoreU(hn::BitCast(d, hn::Sub(bytes, hn::Set(D16(), bias))), d, q);
}
// `value` in the bytes where `bits` has one of the bits of `mask`.
HWY_INLINE V16 Where(V16 bits, V16 mask, uint8_t value) {
  return hn::IfThenZeroElse(hn::Eq(hn::And(bits, mask), hn::Zero(D16())), hn::Set(D16(), value));
}

template <size_t kFirst, uint8_t kBias>
HWY_INLINE void SpreadQ4(const uint8_t* block, int8_t* q) {
  const V16 packed = Load16(block + kFirst);
  Put(Low(packed), kBias, q);
  Put(High(packed), kBias, q + 16);
}

template <size_t kBits, size_t kFirst, uint8_t kBias>
HWY_INLINE void SpreadQ5(const uint8_t* block, int8_t* q) {
  alignas(16) static constexpr uint8_t kByteOf[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                      1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) static constexpr uint8_t kBitOf[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                     1, 2, 4, 8, 16, 32, 64, 128};
  alignas(16) uint8_t fifths[16] = {};
  std::memcpy(fifths, block + kBits, 4);
  const V16 bits = Load16(fifths);
  const V16 byte_of = Load16(kByteOf);
  const V16 bit_of = Load16(kBitOf);
  const V16 packed = Load16(block + kFirst);
  const V16 lower = hn::TableLookupBytes(bits, byte_of);
  const V16 upper = hn::TableLookupBytes(bits, hn::Add(byte_of, hn::Set(D16(), 2)));
  Put(hn::Or(Low(packed), Where(lower, bit_of, 16)), kBias, q);
  Put(hn::Or(High(packed), Where(upper, bit_of, 16)), kBias, q + 16);
}

HWY_INLINE void SpreadIQ4_NL(const uint8_t* block, int8_t* q) {
  const hn::FixedTag<int8_t, 16> d;
  const V16 packed = Load16(block + 2);
  const auto levels = hn::LoadU(d, kIq4NlLevels);
  hn::StoreU(hn::TableLookupBytes(levels, hn::BitCast(d, Low(packed))), d, q);
  hn::StoreU(hn::TableLookupBytes(levels, hn::BitCast(d, High(packed))), d, q + 16);
}

HWY_INLINE void SpreadQ8_0(const uint8_t* block, int8_t* q) { std::memcpy(q, block + 2, 32); }

// The four pairs of bits of 16 bytes, to `each`(pair, which).
template <typename Each>
HWY_INLINE void ForCrumbs(V16 packed, const Each& each) {
  const V16 three = hn::Set(D16(), 3);
  each(hn::And(packed, three), 0);
  each(hn::And(hn::ShiftRight<2>(packed), three), 1);
  each(hn::And(hn::ShiftRight<4>(packed), three), 2);
  each(hn::ShiftRight<6>(packed), 3);
}

HWY_INLINE void SpreadQ2_K(const uint8_t* block, int8_t* q) {
  for (size_t i = 0; i < 64; i += 16) {
    int8_t* to = q + i / 32 * 128 + i % 32;
    ForCrumbs(Load16(block + 16 + i),
              [&](V16 crumb, size_t which) HWY_ATTR { Put(crumb, 0, to + which * 32); });
  }
}

HWY_INLINE void SpreadQ3_K(const uint8_t* block, int8_t* q) {
  for (size_t i = 0; i < 64; i += 16) {
    const V16 thirds = Load16(block + i % 32);
    int8_t* to = q + i / 32 * 128 + i % 32;
    ForCrumbs(Load16(block + 32 + i), [&](V16 crumb, size_t which) HWY_ATTR {
      const V16 mask = hn::Set(D16(), static_cast<uint8_t>(1 << (i / 32 * 4 + which)));
      Put(hn::Or(crumb, Where(thirds, mask, 4)), 4, to + which * 32);
    });
  }
}

HWY_INLINE void SpreadQ4_K(const uint8_t* block, int8_t* q) {
  for (size_t i = 0; i < 128; i += 16) {
    const V16 packed = Load16(block + 16 + i);
    int8_t* to = q + i / 32 * 64 + i % 32;
    Put(Low(packed), 0, to);
    Put(High(packed), 0, to + 32);
  }
}

HWY_INLINE void SpreadQ5_K(const uint8_t* block, int8_t* q) {
  for (size_t i = 0; i < 128; i += 16) {
    const V16 fifths = Load16(block + 16 + i % 32);
    const V16 packed = Load16(block + 48 + i);
    const V16 mask = hn::Set(D16(), static_cast<uint8_t>(1 << i / 32 * 2));
    int8_t* to = q + i / 32 * 64 + i % 32;
    Put(hn::Or(Low(packed), Where(fifths, mask, 16)), 0, to);
    Put(hn::Or(High(packed), Where(fifths, hn::Add(mask, mask), 16)), 0, to + 32);
  }
}

HWY_INLINE void SpreadQ6_K(const uint8_t* block, int8_t* q) {
  for (size_t half = 0; half < 2; ++half, q += 128) {
    for (size_t i = 0; i < 32; i += 16) {
      const V16 first = Load16(block + half * 64 + i);
      const V16 second = Load16(block + half * 64 + 32 + i);
      const V16 low[4] = {Low(first), Low(second), High(first), High(second)};
      ForCrumbs(Load16(block + 128 + half * 32 + i), [&](V16 crumb, size_t which) HWY_ATTR {
        Put(hn::Or(low[which], hn::ShiftLeft<4>(crumb)), 32, q + i + which * 32);
      });
    }
  }
}

// Blocks of 32 weights: a scale and perhaps an offset each.
template <size_t kBytes, bool kHasOffset, typename Spread>
HWY_INLINE void SpreadSmall(const uint8_t* in, size_t blocks, Plain& plain, const Spread& spread) {
  uint16_t scales[kChunk / 32] = {};
  uint16_t offsets[kChunk / 32] = {};
  for (size_t b = 0; b < blocks; ++b, in += kBytes) {
    std::memcpy(&scales[b], in, 2);
    if constexpr (kHasOffset) std::memcpy(&offsets[b], in + 2, 2);
    spread(in, plain.q + 32 * b);
  }
  Run<AsF16, AsF32>(scales, plain.scale, blocks, Unchanged());
  if constexpr (kHasOffset) {
    Run<AsF16, AsF32>(offsets, plain.offset, blocks, Unchanged());
  } else {
    std::fill_n(plain.offset, blocks, kNoOffset);
  }
}

float LoadHalf(const uint8_t* in) { return F16ToF32(static_cast<uint16_t>(in[0] | in[1] << 8)); }

// out[i] = d * in[i]
template <class From>
HWY_INLINE void ScaleAll(const typename From::T* in, float d, size_t count, float* out) {
  const VF scale = hn::Set(F32(), d);
  Run<From, AsF32>(in, out, count, [=](VF v, size_t) HWY_ATTR { return hn::Mul(scale, v); });
}

HWY_INLINE void ScalesQ2_K(const uint8_t* block, float* scale, float* offset) {
  const V16 packed = Load16(block);
  uint8_t scales[16];
  uint8_t minima[16];
  hn::StoreU(Low(packed), D16(), scales);
  hn::StoreU(High(packed), D16(), minima);
  ScaleAll<AsU8>(scales, LoadHalf(block + 80), 16, scale);
  ScaleAll<AsU8>(minima, -LoadHalf(block + 82), 16, offset);
}

HWY_INLINE void ScalesQ3_K(const uint8_t* block, float* scale, float* offset) {
  int8_t scales[16];
  SplitScalesQ3_K(block + 96, scales);
  ScaleAll<AsI8>(scales, LoadHalf(block + 108), 16, scale);
  std::fill_n(offset, 16, kNoOffset);
}

HWY_INLINE uint32_t LoadWord(const uint8_t* in) {
  uint32_t word;
  std::memcpy(&word, in, sizeof(word));
  return word;
}

// Q5_K too: SplitScalesQ4_K, four at a time. Whole vectors are scaled; what they write beyond the
// eight of this block is written over by the next, or never read.
HWY_INLINE void ScalesQ4_K(const uint8_t* block, float* scale, float* offset) {
  const uint32_t first = LoadWord(block + 4);
  const uint32_t second = LoadWord(block + 8);
  const uint32_t third = LoadWord(block + 12);
  const uint32_t scales[kMaxLanes / 4] = {first & 0x3F3F3F3F,
                                          (third & 0x0F0F0F0F) | (first >> 2 & 0x30303030)};
  const uint32_t minima[kMaxLanes / 4] = {second & 0x3F3F3F3F,
                                          (third >> 4 & 0x0F0F0F0F) | (second >> 2 & 0x30303030)};
  ScaleAll<AsU8>(reinterpret_cast<const uint8_t*>(scales), LoadHalf(block), kMaxLanes, scale);
  ScaleAll<AsU8>(reinterpret_cast<const uint8_t*>(minima), -LoadHalf(block + 2), kMaxLanes, offset);
}

HWY_INLINE void ScalesQ6_K(const uint8_t* block, float* scale, float* offset) {
  ScaleAll<AsI8>(reinterpret_cast<const int8_t*>(block) + 192, LoadHalf(block + 208), 16, scale);
  std::fill_n(offset, 16, kNoOffset);
}

// Blocks of 256 weights: 256 / kGroup scales and offsets each.
template <size_t kBytes, size_t kGroup, typename Spread, typename Scales>
HWY_INLINE void SpreadLarge(const uint8_t* in, size_t blocks, Plain& plain, const Spread& spread,
                            const Scales& scales) {
  for (size_t b = 0; b < blocks; ++b, in += kBytes) {
    spread(in, plain.q + 256 * b);
    scales(in, plain.scale + 256 / kGroup * b, plain.offset + 256 / kGroup * b);
  }
}

// Whether no weight can be beyond the largest half; false too when a scale is no number.
HWY_INLINE bool IsBounded(const Plain& plain, size_t groups) {
  const F32 d;
  auto within = hn::FirstN(d, hn::Lanes(d));
  for (size_t i = 0; i < groups; i += hn::Lanes(d)) {
    const VF scale = hn::Abs(hn::LoadU(d, plain.scale + i));
    const VF offset = hn::Abs(hn::LoadU(d, plain.offset + i));
    const VF largest = hn::Add(hn::Mul(scale, hn::Set(d, 128.0f)), offset);
    within = hn::And(within, hn::Lt(largest, hn::Set(d, 65504.0f)));
  }
  return hn::AllTrue(d, within);
}

template <size_t kGroup, class To>
void ScaleAs(const Plain& plain, size_t count, typename To::T* out) {
  for (size_t i = 0; i < count; i += kGroup) {
    const VF scale = hn::Set(F32(), plain.scale[i / kGroup]);
    const VF offset = hn::Set(F32(), plain.offset[i / kGroup]);
    for (size_t j = i; j < i + kGroup; j += hn::Lanes(F32())) {
      To::Store(hn::Add(hn::Mul(scale, AsI8::Load(plain.q + j)), offset), out + j);
    }
  }
}

// Most weights are small enough to need no clamping, which a look at their scales tells.
template <size_t kGroup, class To>
void Scale(const Plain& plain, size_t count, typename To::T* out) {
  if (std::is_same_v<To, AsF16> && IsBounded(plain, count / kGroup)) {
    using Unclamped = std::conditional_t<std::is_same_v<To, AsF16>, AsBoundedF16, To>;
    return ScaleAs<kGroup, Unclamped>(plain, count, out);
  }
  ScaleAs<kGroup, To>(plain, count, out);
}

// At most kChunk weights. How many share a scale.
size_t SpreadBlocks(BlockFormat format, const uint8_t* in, size_t blocks, Plain& plain) {
  switch (format) {
    case BlockFormat::kQ4_0:
      SpreadSmall<18, false>(in, blocks, plain, SpreadQ4<2, 8>);
      return 32;
    case BlockFormat::kQ4_1:
      SpreadSmall<20, true>(in, blocks, plain, SpreadQ4<4, 0>);
      return 32;
    case BlockFormat::kQ5_0:
      SpreadSmall<22, false>(in, blocks, plain, SpreadQ5<2, 6, 16>);
      return 32;
    case BlockFormat::kQ5_1:
      SpreadSmall<24, true>(in, blocks, plain, SpreadQ5<4, 8, 0>);
      return 32;
    case BlockFormat::kQ8_0:
      SpreadSmall<34, false>(in, blocks, plain, SpreadQ8_0);
      return 32;
    case BlockFormat::kIQ4_NL:
      SpreadSmall<18, false>(in, blocks, plain, SpreadIQ4_NL);
      return 32;
    case BlockFormat::kQ2_K:
      SpreadLarge<84, 16>(in, blocks, plain, SpreadQ2_K, ScalesQ2_K);
      return 16;
    case BlockFormat::kQ3_K:
      SpreadLarge<110, 16>(in, blocks, plain, SpreadQ3_K, ScalesQ3_K);
      return 16;
    case BlockFormat::kQ4_K:
      SpreadLarge<144, 32>(in, blocks, plain, SpreadQ4_K, ScalesQ4_K);
      return 32;
    case BlockFormat::kQ5_K:
      SpreadLarge<176, 32>(in, blocks, plain, SpreadQ5_K, ScalesQ4_K);
      return 32;
    case BlockFormat::kQ6_K:
      SpreadLarge<210, 16>(in, blocks, plain, SpreadQ6_K, ScalesQ6_K);
      return 16;
  }
  return 32;
}

template <class To>
void DequantizeTo(BlockFormat format, const uint8_t* in, typename To::T* out, size_t blocks) {
  const size_t length = BlockLength(format);
  const uint64_t bytes = BlockBytes(format);
  const size_t most = kChunk / length;
  Plain plain;
  for (size_t first = 0; first < blocks; first += most) {
    const size_t some = std::min(most, blocks - first);
    const size_t group = SpreadBlocks(format, in + first * bytes, some, plain);
    if (group == 16) {
      Scale<16, To>(plain, some * length, out + first * length);
    } else {
      Scale<32, To>(plain, some * length, out + first * length);
    }
  }
}

void DequantizeRun(BlockFormat format, const uint8_t* in, ElementType to, void* out, size_t blocks,
                   bool stream) {
  switch (to) {
    case ElementType::kF16:
      if (stream && reinterpret_cast<uintptr_t>(out) % 64 == 0) {
        DequantizeTo<AsStreamedF16>(format, in, static_cast<uint16_t*>(out), blocks);
        return hwy::FlushStream();
      }
      return DequantizeTo<AsF16>(format, in, static_cast<uint16_t*>(out), blocks);
    case ElementType::kBF16:
      return DequantizeTo<AsBF16>(format, in, static_cast<uint16_t*>(out), blocks);
    default:
      return DequantizeTo<AsF32>(format, in, static_cast<float*>(out), blocks);
  }
}

#endif

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::kernels {
namespace {

HWY_EXPORT(DequantizeRun);

}  // namespace

void DequantizeBlocks(BlockFormat format, const void* in, ElementType to, void* out, size_t blocks,
                      bool stream) {
  HWY_DYNAMIC_DISPATCH(DequantizeRun)
  (format, static_cast<const uint8_t*>(in), to, out, blocks, stream);
}

}  // namespace npubank::kernels
#endif

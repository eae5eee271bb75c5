// What the SIMD kernels share: reading a run of any narrow element type as vectors of F32, and
// writing such vectors as any narrow element type, by the rules of float_bits.h.
//
//   Run<AsBF16, AsF16>(in, out, count, Unchanged());
//
// Compiled once per instruction set: include it from a file that foreach_target.h includes again.
// The scalar target has no vectors worth the name; there the kernels are their reference loops, and
// this file must not be included.
#if defined(NPUBANK_LAZY_TENSOR_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUBANK_LAZY_TENSOR_KERNELS_SIMD_INL_H_
#undef NPUBANK_LAZY_TENSOR_KERNELS_SIMD_INL_H_
#else
#define NPUBANK_LAZY_TENSOR_KERNELS_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "npubank/lazy_tensor/kernels/float_bits.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using VF = hn::Vec<F32>;
using VU = hn::Vec<U32>;

// As many elements of T as there are lanes of F32.
template <typename T>
using Narrow = hn::Rebind<T, F32>;

// No vector of F32 is longer.
inline constexpr size_t kMaxLanes = 16;

template <typename T>
HWY_INLINE VU LoadWidened(const T* in) {
  return hn::PromoteTo(U32(), hn::LoadU(Narrow<T>(), in));
}

// Half floats in 32-bit lanes to F32, in integer arithmetic.
HWY_INLINE VF WidenHalf(VU half) {
  const U32 du;
  const VU magnitude = hn::And(half, hn::Set(du, 0x7FFF));
  const VU sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
  const VU shifted = hn::ShiftLeft<13>(magnitude);
  const VU normal = hn::Add(shifted, hn::Set(du, 112u << 23));
  const VU subnormal = hn::BitCast(
      du, hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), magnitude)), hn::Set(F32(), 0x1p-24f)));
  const VU quiet =
      hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(du, 0x7C00)), hn::Set(du, 1u << 22));
  const VU special = hn::Or(hn::Or(shifted, hn::Set(du, 0x7F800000)), quiet);
  VU wide = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x0400)), subnormal, normal);
  wide = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x7C00)), wide, special);
  return hn::BitCast(F32(), hn::Or(wide, sign));
}

// F32 rounded to nearest even into `kExponent` and `kMantissa` bits and saturated at `kLargest`,
// the result in the low bits of each lane. Lanes that hold a NaN are unspecified.
template <int kExponent, int kMantissa, uint32_t kLargest>
HWY_INLINE VU RoundToNarrowBits(VF value) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr int kDropped = 23 - kMantissa;
  const U32 du;
  const VU bits = hn::BitCast(du, value);
  const VU magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
  // A number of at least the smallest normal: rebias, and add just under a half to round.
  const VU odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1));
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  constexpr uint32_t kBelowHalf = (1u << (kDropped - 1)) - 1;
  const VU rounded = hn::Add(hn::Add(magnitude, odd), hn::Set(du, kBelowHalf - kRebias));
  const VU normal = hn::Min(hn::ShiftRight<kDropped>(rounded), hn::Set(du, kLargest));
  // Below it: adding the power of two whose last bit is the smallest subnormal rounds as F32 does.
  const VU magic = hn::Set(du, static_cast<uint32_t>(127 - kBias + kDropped + 1) << 23);
  const VF sum = hn::Add(hn::BitCast(F32(), magnitude), hn::BitCast(F32(), magic));
  const VU subnormal = hn::Sub(hn::BitCast(du, sum), magic);
  const auto is_subnormal = hn::Lt(magnitude, hn::Set(du, kRebias + (1u << 23)));
  const VU sign = hn::ShiftLeft<kExponent + kMantissa>(hn::ShiftRight<31>(bits));
  return hn::Or(hn::IfThenElse(is_subnormal, subnormal, normal), sign);
}

struct AsF32 {
  using T = float;
  static HWY_INLINE VF Load(const T* in) { return hn::LoadU(F32(), in); }
  static HWY_INLINE void Store(VF v, T* out) { hn::StoreU(v, F32(), out); }
};

struct AsBF16 {
  using T = uint16_t;
  static HWY_INLINE VF Load(const T* in) {
    return hn::BitCast(F32(), hn::ShiftLeft<16>(LoadWidened(in)));
  }
  static HWY_INLINE void Store(VF v, T* out) {
    const U32 du;
    const VU bits = hn::BitCast(du, v);
    const VU high = hn::ShiftRight<16>(bits);
    const VU odd = hn::And(high, hn::Set(du, 1));
    const VU rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7FFF)));
    const VU quiet = hn::Or(high, hn::Set(du, 0x0040));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
    const VU result = hn::IfThenElse(is_nan, quiet, rounded);
    hn::StoreU(hn::DemoteTo(Narrow<T>(), hn::BitCast(I32(), result)), Narrow<T>(), out);
  }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
// The processor's own conversion keeps to the same rules, once what is too large is clamped.
struct AsF16 {
  using T = uint16_t;
  using Half = Narrow<hwy::float16_t>;
  static HWY_INLINE VF Load(const T* in) {
    return hn::PromoteTo(F32(), hn::BitCast(Half(), hn::LoadU(Narrow<T>(), in)));
  }
  static HWY_INLINE VF Clamp(VF v) {
    // The operand order matters: a NaN in the second is passed on.
    return hn::Min(hn::Set(F32(), 65504.0f), hn::Max(hn::Set(F32(), -65504.0f), v));
  }
  static HWY_INLINE hn::Vec<Narrow<T>> Round(VF v) {
    return hn::BitCast(Narrow<T>(), hn::DemoteTo(Half(), v));
  }
  static HWY_INLINE void Store(VF v, T* out) { hn::StoreU(Round(Clamp(v)), Narrow<T>(), out); }
};
// Past the cache; `out` lies on a multiple of what a vector takes there.
struct AsStreamedF16 : AsF16 {
  static HWY_INLINE void Store(VF v, T* out) { hn::Stream(Round(Clamp(v)), Narrow<T>(), out); }
};
// Numbers known to be no larger than the largest half.
struct AsBoundedF16 : AsF16 {
  static HWY_INLINE void Store(VF v, T* out) { hn::StoreU(Round(v), Narrow<T>(), out); }
};
#else
struct AsF16 {
  using T = uint16_t;
  static HWY_INLINE VF Load(const T* in) { return WidenHalf(LoadWidened(in)); }
  static HWY_INLINE void Store(VF v, T* out) {
    const U32 du;
    const VU bits = hn::BitCast(du, v);
    const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
    const VU payload = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 0x03FF));
    const VU nan = hn::Or(hn::Or(sign, payload), hn::Set(du, 0x7E00));
    const VU rounded = RoundToNarrowBits<5, 10, kF16Layout.largest>(v);
    const VU result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, rounded);
    hn::StoreU(hn::DemoteTo(Narrow<T>(), hn::BitCast(I32(), result)), Narrow<T>(), out);
  }
};
using AsBoundedF16 = AsF16;
using AsStreamedF16 = AsF16;
#endif

template <int kExponent, int kMantissa, uint32_t kLargest, uint32_t kNan>
struct AsF8 {
  using T = uint8_t;
  static HWY_INLINE void Store(VF v, T* out) {
    const U32 du;
    const VU sign = hn::ShiftLeft<7>(hn::ShiftRight<31>(hn::BitCast(du, v)));
    const VU nan = hn::Or(sign, hn::Set(du, kNan));
    const VU rounded = RoundToNarrowBits<kExponent, kMantissa, kLargest>(v);
    const VU result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, rounded);
    hn::StoreU(hn::DemoteTo(Narrow<T>(), hn::BitCast(I32(), result)), Narrow<T>(), out);
  }
};

// E5M2 is the upper byte of a half.
struct AsF8E5M2 : AsF8<5, 2, kF8E5M2Layout.largest, 0x7E> {
  static HWY_INLINE VF Load(const T* in) { return WidenHalf(hn::ShiftLeft<8>(LoadWidened(in))); }
};

// E4M3 is a half with a shorter exponent: one place up it is right but for a factor of 2^8.
struct AsF8E4M3 : AsF8<4, 3, kF8E4M3Layout.largest, 0x7F> {
  static HWY_INLINE VF Load(const T* in) {
    const U32 du;
    const VU bits = LoadWidened(in);
    const VU magnitude = hn::And(bits, hn::Set(du, 0x7F));
    const VU sign = hn::ShiftLeft<24>(hn::Xor(bits, magnitude));
    const VF value = hn::Mul(WidenHalf(hn::ShiftLeft<7>(magnitude)), hn::Set(F32(), 256.0f));
    const auto is_nan = hn::Eq(magnitude, hn::Set(du, 0x7F));
    const VU wide = hn::IfThenElse(is_nan, hn::Set(du, 0x7FC00000), hn::BitCast(du, value));
    return hn::BitCast(F32(), hn::Or(wide, sign));
  }
};

// 8- and 16-bit integers. To store, the number is clamped and rounded by adding and taking away the
// power of two above which F32 has no fraction, which works in the default rounding mode
// everywhere.
template <typename Integer>
struct AsInteger {
  using T = Integer;
  static HWY_INLINE VF Load(const T* in) {
    return hn::ConvertTo(F32(), hn::PromoteTo(I32(), hn::LoadU(Narrow<T>(), in)));
  }
  static HWY_INLINE void Store(VF v, T* out) {
    const F32 d;
    const VF lowest = hn::Set(d, static_cast<float>(std::numeric_limits<T>::min()));
    const VF highest = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()));
    const VF known = hn::IfThenElseZero(hn::Eq(v, v), v);
    const VF clamped = hn::Min(hn::Max(known, lowest), highest);
    const VF magic = hn::Set(d, 0x1.8p23f);
    const VF whole = hn::Sub(hn::Add(clamped, magic), magic);
    hn::StoreU(hn::DemoteTo(Narrow<T>(), hn::ConvertTo(I32(), whole)), Narrow<T>(), out);
  }
};
using AsI8 = AsInteger<int8_t>;
using AsU8 = AsInteger<uint8_t>;
using AsI16 = AsInteger<int16_t>;
using AsU16 = AsInteger<uint16_t>;

// Bytes that hold one four-bit number each, as SpreadNibbles makes them. U4 is AsU8.
struct AsSpreadI4 {
  using T = uint8_t;
  static HWY_INLINE VF Load(const T* in) {
    const hn::Vec<I32> bits = hn::BitCast(I32(), LoadWidened(in));
    const hn::Vec<I32> eight = hn::Set(I32(), 8);
    return hn::ConvertTo(F32(), hn::Sub(hn::Xor(bits, eight), eight));
  }
};

struct AsSpreadNF4 {
  using T = uint8_t;
  static HWY_INLINE VF Load(const T* in) {
    return hn::GatherIndex(F32(), kNf4Levels, hn::BitCast(I32(), LoadWidened(in)));
  }
};

// out[i] = change(in[i], i), with `change` a function of a vector and the index of its first lane;
// it may be asked for lanes beyond `count` when `count` is less than a vector. The last vector of a
// longer run overlaps the one before it. Nothing is read or written beyond the run.
template <class From, class To, class Change>
void Run(const typename From::T* in, typename To::T* out, size_t count, Change change) {
  const size_t lanes = hn::Lanes(F32());
  if (count < lanes) {
    if (count == 0) return;
    typename From::T few_in[kMaxLanes] = {};
    typename To::T few_out[kMaxLanes];
    std::memcpy(few_in, in, count * sizeof(few_in[0]));
    Run<From, To>(few_in, few_out, lanes, change);
    std::memcpy(out, few_out, count * sizeof(few_out[0]));
    return;
  }
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) To::Store(change(From::Load(in + i), i), out + i);
  if (i == count) return;
  i = count - lanes;
  To::Store(change(From::Load(in + i), i), out + i);
}

struct Unchanged {
  HWY_INLINE VF operator()(VF v, size_t) const { return v; }
};

// Four-bit numbers to bytes, in their order. `bytes` holds an even number: 2 * packed.
inline void SpreadNibbles(const uint8_t* in, size_t packed, uint8_t* out) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const hn::Repartition<uint8_t, decltype(d16)> wide8;
  const size_t lanes = hn::Lanes(d16);
  const auto spread = [&](size_t i) HWY_ATTR {
    const auto byte = hn::PromoteTo(d16, hn::LoadU(d8, in + i));
    const auto pair = hn::And(hn::Or(byte, hn::ShiftLeft<4>(byte)), hn::Set(d16, 0x0F0F));
    hn::StoreU(hn::BitCast(wide8, pair), wide8, out + 2 * i);
  };
  size_t i = 0;
  for (; i + lanes <= packed; i += lanes) spread(i);
  if (i == packed) return;
  if (packed >= lanes) return spread(packed - lanes);
  for (; i < packed; ++i) {
    out[2 * i] = in[i] & 15;
    out[2 * i + 1] = in[i] >> 4;
  }
}

// Kernels in several steps go by chunks of this many numbers, which stay in the first-level cache.
inline constexpr size_t kChunk = 1024;

template <class From, class To>
void RunAs(const void* in, size_t in_first, void* out, size_t out_first, size_t count) {
  Run<From, To>(static_cast<const typename From::T*>(in) + in_first,
                static_cast<typename To::T*>(out) + out_first, count, Unchanged());
}

template <class Spread>
void NibblesToF32(const void* in, size_t first, float* out, size_t count) {
  uint8_t bytes[kChunk];
  SpreadNibbles(static_cast<const uint8_t*>(in) + first / 2, (count + 1) / 2, bytes);
  RunAs<Spread, AsF32>(bytes, 0, out, 0, count);
}

// At most kChunk numbers of `in`, from `first` on, which is even.
inline void ToF32(ElementType from, const void* in, size_t first, float* out, size_t count) {
  switch (from) {
    case ElementType::kF32:
      return RunAs<AsF32, AsF32>(in, first, out, 0, count);
    case ElementType::kF16:
      return RunAs<AsF16, AsF32>(in, first, out, 0, count);
    case ElementType::kBF16:
      return RunAs<AsBF16, AsF32>(in, first, out, 0, count);
    case ElementType::kF8E4M3:
      return RunAs<AsF8E4M3, AsF32>(in, first, out, 0, count);
    case ElementType::kF8E5M2:
      return RunAs<AsF8E5M2, AsF32>(in, first, out, 0, count);
    case ElementType::kI8:
      return RunAs<AsI8, AsF32>(in, first, out, 0, count);
    case ElementType::kU8:
      return RunAs<AsU8, AsF32>(in, first, out, 0, count);
    case ElementType::kI16:
      return RunAs<AsI16, AsF32>(in, first, out, 0, count);
    case ElementType::kU16:
      return RunAs<AsU16, AsF32>(in, first, out, 0, count);
    case ElementType::kI4:
      return NibblesToF32<AsSpreadI4>(in, first, out, count);
    case ElementType::kU4:
      return NibblesToF32<AsU8>(in, first, out, count);
    case ElementType::kNF4:
      return NibblesToF32<AsSpreadNF4>(in, first, out, count);
    default:
      return;
  }
}

// The other way, to `out` from `first` on.
inline void FromF32(const float* in, ElementType to, void* out, size_t first, size_t count) {
  switch (to) {
    case ElementType::kF16:
      return RunAs<AsF32, AsF16>(in, 0, out, first, count);
    case ElementType::kBF16:
      return RunAs<AsF32, AsBF16>(in, 0, out, first, count);
    case ElementType::kF8E4M3:
      return RunAs<AsF32, AsF8E4M3>(in, 0, out, first, count);
    case ElementType::kF8E5M2:
      return RunAs<AsF32, AsF8E5M2>(in, 0, out, first, count);
    case ElementType::kI8:
      return RunAs<AsF32, AsI8>(in, 0, out, first, count);
    case ElementType::kU8:
      return RunAs<AsF32, AsU8>(in, 0, out, first, count);
    case ElementType::kI16:
      return RunAs<AsF32, AsI16>(in, 0, out, first, count);
    case ElementType::kU16:
      return RunAs<AsF32, AsU16>(in, 0, out, first, count);
    default:
      return;
  }
}

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

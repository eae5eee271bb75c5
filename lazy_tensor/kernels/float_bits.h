// The narrow float formats, one number at a time: what their bits mean and how a number is rounded
// into them. These are the rules of convert.h in plain integer arithmetic; the SIMD kernels are
// held against them bit for bit.
//
//   F16ToF32(0x3C00)             -> 1.0f
//   F32ToF16(1e6f)               -> 0x7BFF, the largest finite half (65504)
//   RoundToOdd(double)           -> a float that can be rounded once more without a double rounding
//
// A NaN keeps its sign and the payload bits that fit, and becomes quiet. Everything is pure.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_FLOAT_BITS_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_FLOAT_BITS_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace npubank::kernels {

// Layout of a float of at most 16 bits: 1 sign bit, `exponent` bits, `mantissa` bits.
struct NarrowFloat {
  int exponent;
  int mantissa;
  uint32_t largest;  // bits of the largest finite value; what is beyond it saturates
};
inline constexpr NarrowFloat kF16Layout = {5, 10, 0x7BFF};
inline constexpr NarrowFloat kF8E4M3Layout = {4, 3, 0x7E};  // 448
inline constexpr NarrowFloat kF8E5M2Layout = {5, 2, 0x7B};  // 57344

// The 16 levels of NormalFloat4: quantiles of a normal distribution scaled to [-1, 1], as published
// with QLoRA (Dettmers et al., 2023, appendix E).
inline constexpr float kNf4Levels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

inline float BF16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x0040);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float F16ToF32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} << 16 & 0x80000000;
  const uint32_t magnitude = bits & 0x7FFF;
  if (magnitude < 0x0400) {  // subnormal: a count of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  if (magnitude < 0x7C00) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const uint32_t quiet = magnitude > 0x7C00 ? 0x00400000 : 0;
  return std::bit_cast<float>(sign | 0x7F800000 | (magnitude << 13) | quiet);
}

inline float F8E5M2ToF32(uint8_t bits) { return F16ToF32(static_cast<uint16_t>(bits << 8)); }

inline float F8E4M3ToF32(uint8_t bits) {
  const uint32_t sign = uint32_t{bits} << 24 & 0x80000000;
  const uint32_t magnitude = bits & 0x7F;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000);
  if (magnitude < 0x08) {  // subnormal: a count of 2^-9
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

// Round to nearest even into `to`; what is too large, infinities included, becomes the largest
// finite value of its sign. `value` is not a NaN.
inline uint32_t RoundToNarrow(float value, const NarrowFloat& to) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31 << (to.exponent + to.mantissa);
  const int bias = (1 << (to.exponent - 1)) - 1;
  const int biased = static_cast<int>(bits >> 23 & 0xFF) - 127 + bias;
  // The mantissa with its hidden bit, and how many of its low bits `to` cannot hold.
  const uint32_t mantissa = (bits & 0x7FFFFF) | 0x800000;
  const int dropped = 23 - to.mantissa + (biased < 1 ? 1 - biased : 0);
  if (dropped > 24) return sign;  // below half of the smallest subnormal
  const uint32_t kept = mantissa >> dropped;
  const uint32_t rest = mantissa & ((1u << dropped) - 1);
  const uint32_t half = 1u << (dropped - 1);
  const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
  // A normal number's hidden bit adds the last one to the exponent; so does a carry out of the
  // mantissa.
  const uint32_t exponent = biased < 1 ? 0 : static_cast<uint32_t>(biased - 1) << to.mantissa;
  const uint32_t magnitude = exponent + rounded;
  return sign | (magnitude < to.largest ? magnitude : to.largest);
}

inline uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x7E00 | (bits >> 13 & 0x03FF));
  }
  return static_cast<uint16_t>(RoundToNarrow(value, kF16Layout));
}

inline uint8_t F32ToF8E4M3(float value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFF : 0x7F;
  return static_cast<uint8_t>(RoundToNarrow(value, kF8E4M3Layout));
}

inline uint8_t F32ToF8E5M2(float value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFE : 0x7E;
  return static_cast<uint8_t>(RoundToNarrow(value, kF8E5M2Layout));
}

// A float next to `value` whose last bit is odd whenever it is not exact. A later rounding to at
// most 22 bits then gives what rounding `value` itself would have given.
inline float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (back == value || std::isnan(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1) != 0) return nearest;
  // Even and not exact: its odd neighbour on the other side of `value` (down from infinity too).
  bits += std::fabs(back) < std::fabs(value) ? 1u : ~0u;
  return std::bit_cast<float>(bits);
}

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_FLOAT_BITS_H_

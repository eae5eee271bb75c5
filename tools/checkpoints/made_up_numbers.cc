#include "npubank/tools/checkpoints/made_up_numbers.h"

#include <cstring>

#include "npubank/lazy_tensor/kernels/convert.h"

namespace npubank {
namespace {

using kernels::BlockFormat;

// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection that mixes all bits.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

constexpr float kDeviation = 0.02f;
constexpr float kNibbleDeviation = 4.6097722f;  // of 0 to 15, each as often: sqrt(255 / 12)
constexpr float kByteDeviation = 73.900383f;    // of 0 to 255: sqrt(65535 / 12)

// Where a block's F16 scale lies, that of its minima after it if it has one, and what the first is:
// numbers of this size, times a scale of its own where blocks have those, deviate as they should. The
// minima's makes their mean about zero.
struct BlockScales {
  size_t at;
  float scale;
  float minimum;  // 0: none
};
BlockScales ScalesOf(BlockFormat format) {
  constexpr float kNibble = kDeviation / kNibbleDeviation;
  switch (format) {
    case BlockFormat::kQ8_0:
      return {0, kDeviation / 73.9f, 0};
    case BlockFormat::kQ4_1:
      return {0, kNibble, -7.5f * kNibble};
    case BlockFormat::kQ4_K:
      return {0, kNibble / 40, kNibble / 40 * 7.5f};
    case BlockFormat::kQ6_K:
      return {208, kDeviation / 18.5f / 74, 0};
    default:
      return {0, kNibble, 0};
  }
}

void PutHalf(float value, std::byte* out) {
  kernels::Convert(ElementType::kF32, &value, ElementType::kF16, out, 1);
}

}  // namespace

MadeUpNumbers::MadeUpNumbers(uint64_t seed, uint64_t tensor) : stream_(Mix(Mix(seed) + tensor)) {}

// The sum of four uniform numbers. Integers up to the one product, so that every machine makes the
// same float.
void MadeUpNumbers::Floats(uint64_t first, float mean, absl::Span<float> out) const {
  constexpr float kScale = kDeviation * 1.7320508f / 65536.0f;  // the sum deviates by sqrt(4 / 12) x 65536
  const auto middle = static_cast<int32_t>(mean / kScale);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = Mix(stream_ + (first + i));
    const auto sum = static_cast<int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                          (bits >> 32 & 0xFFFF) + (bits >> 48));
    out[i] = static_cast<float>(sum - 2 * 65535 + middle) * kScale;
  }
}

void MadeUpNumbers::Words(uint64_t first, absl::Span<uint32_t> out) const {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint32_t>(Mix(stream_ + first + i) >> 32);
}

void MadeUpNumbers::Scales(uint64_t first, int levels, absl::Span<float> out) const {
  const float deviation = levels == 16 ? kNibbleDeviation : kByteDeviation;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto part = static_cast<float>(Mix(stream_ + first + i) >> 48) / 65536.0f;  // 0 to 1
    out[i] = kDeviation / deviation * (0.75f + 0.5f * part);
  }
}

void MadeUpNumbers::Blocks(BlockFormat format, uint64_t first, uint64_t blocks,
                           std::byte* out) const {
  const size_t bytes = kernels::BlockBytes(format);
  const BlockScales scales = ScalesOf(format);
  const uint64_t words = (bytes + 7) / 8;
  for (uint64_t b = 0; b < blocks; ++b, out += bytes) {
    for (uint64_t w = 0; w < words; ++w) {
      const uint64_t bits = Mix(stream_ + (first + b) * words + w);
      std::memcpy(out + 8 * w, &bits, w + 1 < words ? 8 : bytes - 8 * w);
    }
    PutHalf(scales.scale, out + scales.at);
    if (scales.minimum != 0) PutHalf(scales.minimum, out + scales.at + 2);
  }
}

}  // namespace npubank

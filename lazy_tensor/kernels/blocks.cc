#include "npubank/lazy_tensor/kernels/blocks.h"

#include <cstring>

#include "npubank/lazy_tensor/kernels/block_layout.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/kernels/float_bits.h"

namespace npubank::kernels {
namespace {

float LoadHalf(const uint8_t* in) { return F16ToF32(static_cast<uint16_t>(in[0] | in[1] << 8)); }

// Of 32 four-bit numbers in 16 bytes, the first half are the low nibbles.
int Nibble32(const uint8_t* packed, size_t i) {
  return i < 16 ? packed[i] & 15 : packed[i - 16] >> 4;
}

int Bit(const uint8_t* bits, size_t i) { return bits[i / 8] >> i % 8 & 1; }

// d, then 16 bytes of nibbles less 8.
void ReadQ4_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble32(block + 2, i) - 8);
}

// d, m, 16 bytes of nibbles.
void ReadQ4_1(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble32(block + 4, i)) + m;
}

// d, 32 fifth bits, 16 bytes of nibbles; less 16.
void ReadQ5_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (size_t i = 0; i < 32; ++i) {
    const int q = Nibble32(block + 6, i) + 16 * Bit(block + 2, i) - 16;
    out[i] = d * static_cast<float>(q);
  }
}

// d, m, 32 fifth bits, 16 bytes of nibbles.
void ReadQ5_1(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  for (size_t i = 0; i < 32; ++i) {
    const int q = Nibble32(block + 8, i) + 16 * Bit(block + 4, i);
    out[i] = d * static_cast<float>(q) + m;
  }
}

// d, 32 signed bytes.
void ReadQ8_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

// d, 16 bytes of nibbles that look up a level.
void ReadIQ4_NL(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(kIq4NlLevels[Nibble32(block + 2, i)]);
  }
}

// The two-bit numbers of Q2_K and Q3_K: 32 bytes hold 128 of them, the first 32 in the lowest bits.
int Crumb(const uint8_t* packed, size_t i) {
  return packed[i / 128 * 32 + i % 32] >> (i % 128 / 32) * 2 & 3;
}

// 16 bytes with a scale in the low and a minimum in the high nibble, each for 16 weights; 64 bytes
// of two bits; d, dmin.
void ReadQ2_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + 80);
  const float dmin = LoadHalf(block + 82);
  for (size_t i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(block[i / 16] & 15);
    const float minimum = dmin * static_cast<float>(block[i / 16] >> 4);
    out[i] = scale * static_cast<float>(Crumb(block + 16, i)) - minimum;
  }
}

// 32 bytes of third bits, bit i/32 of byte i%32, where a zero takes off 4; 64 bytes of two bits; 16
// six-bit scales; d.
void ReadQ3_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + 108);
  int8_t scales[16];
  SplitScalesQ3_K(block + 96, scales);
  for (size_t i = 0; i < 256; ++i) {
    const int third = block[i % 32] >> i / 32 & 1;
    const float scale = d * static_cast<float>(scales[i / 16]);
    out[i] = scale * static_cast<float>(Crumb(block + 32, i) - (third != 0 ? 0 : 4));
  }
}

// The four-bit numbers of Q4_K and Q5_K: 32 bytes hold 64 of them, the first 32 in the low nibbles.
int Nibble64(const uint8_t* packed, size_t i) {
  return packed[i / 64 * 32 + i % 32] >> (i % 64 / 32) * 4 & 15;
}

// d, dmin, 8 six-bit scales and minima for 32 weights each, 128 bytes of nibbles.
void ReadQ4_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  uint8_t scales[8];
  uint8_t minima[8];
  SplitScalesQ4_K(block + 4, scales, minima);
  for (size_t i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(scales[i / 32]);
    const float minimum = dmin * static_cast<float>(minima[i / 32]);
    out[i] = scale * static_cast<float>(Nibble64(block + 16, i)) - minimum;
  }
}

// As Q4_K, with 32 bytes of fifth bits, bit i/32 of byte i%32, before the nibbles.
void ReadQ5_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  uint8_t scales[8];
  uint8_t minima[8];
  SplitScalesQ4_K(block + 4, scales, minima);
  for (size_t i = 0; i < 256; ++i) {
    const int q = Nibble64(block + 48, i) + 16 * (block[16 + i % 32] >> i / 32 & 1);
    const float scale = d * static_cast<float>(scales[i / 32]);
    const float minimum = dmin * static_cast<float>(minima[i / 32]);
    out[i] = scale * static_cast<float>(q) - minimum;
  }
}

// 128 bytes of low nibbles: 64 of them hold 128, the first 64 in the low half; 64 bytes of upper
// two bits, laid out as in Q2_K; 16 signed bytes of scales; d. Less 32.
void ReadQ6_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + 208);
  for (size_t i = 0; i < 256; ++i) {
    const int low = block[i / 128 * 64 + i % 64] >> (i % 128 / 64) * 4 & 15;
    const int q = (low | Crumb(block + 128, i) << 4) - 32;
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    out[i] = scale * static_cast<float>(q);
  }
}

struct Format {
  BlockFormat format;
  const char* name;
  size_t length;
  uint64_t bytes;
  void (*read)(const uint8_t* block, float* out);
};

constexpr Format kFormats[] = {
    {BlockFormat::kQ4_0, "Q4_0", 32, 18, ReadQ4_0},
    {BlockFormat::kQ4_1, "Q4_1", 32, 20, ReadQ4_1},
    {BlockFormat::kQ5_0, "Q5_0", 32, 22, ReadQ5_0},
    {BlockFormat::kQ5_1, "Q5_1", 32, 24, ReadQ5_1},
    {BlockFormat::kQ8_0, "Q8_0", 32, 34, ReadQ8_0},
    {BlockFormat::kQ2_K, "Q2_K", 256, 84, ReadQ2_K},
    {BlockFormat::kQ3_K, "Q3_K", 256, 110, ReadQ3_K},
    {BlockFormat::kQ4_K, "Q4_K", 256, 144, ReadQ4_K},
    {BlockFormat::kQ5_K, "Q5_K", 256, 176, ReadQ5_K},
    {BlockFormat::kQ6_K, "Q6_K", 256, 210, ReadQ6_K},
    {BlockFormat::kIQ4_NL, "IQ4_NL", 32, 18, ReadIQ4_NL},
};

// Null for a number that no format has.
const Format* Find(BlockFormat format) {
  for (const Format& known : kFormats) {
    if (known.format == format) return &known;
  }
  return nullptr;
}

// Whoever has a format has one that is known; anything else reads as some format, and follows no null.
const Format& Describe(BlockFormat format) {
  const Format* const found = Find(format);
  return found != nullptr ? *found : kFormats[0];
}

}  // namespace

std::optional<BlockFormat> BlockFormatFromNumber(uint32_t number) {
  const Format* const found = Find(static_cast<BlockFormat>(number));
  if (found == nullptr) return std::nullopt;
  return found->format;
}

const char* BlockFormatName(BlockFormat format) { return Describe(format).name; }
size_t BlockLength(BlockFormat format) { return Describe(format).length; }
uint64_t BlockBytes(BlockFormat format) { return Describe(format).bytes; }

bool CanDequantizeBlocks(ElementType to) { return IsPlainFloat(to); }

void ReferenceDequantizeBlocks(BlockFormat format, const void* in, ElementType to, void* out,
                               size_t blocks) {
  const Format& layout = Describe(format);
  const size_t element = to == ElementType::kF32 ? 4 : 2;
  for (size_t b = 0; b < blocks; ++b) {
    float values[256];
    layout.read(static_cast<const uint8_t*>(in) + b * layout.bytes, values);
    ReferenceConvert(ElementType::kF32, values, to,
                     static_cast<uint8_t*>(out) + b * layout.length * element, layout.length);
  }
}

}  // namespace npubank::kernels

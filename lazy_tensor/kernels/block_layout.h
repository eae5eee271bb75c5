// What the plain and the fast readers of GGUF blocks share: the levels of IQ4_NL and the packed
// six-bit scales of the 256-weight formats. See blocks.h for the source of these facts.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_BLOCK_LAYOUT_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace npubank::kernels {

inline constexpr int8_t kIq4NlLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

// Q4_K and Q5_K: 8 scales and 8 minima of six bits in 12 bytes. The first four of either take the
// low six bits of a byte; the others have their low four bits in a nibble of the last four bytes
// and their upper two above the first ones.
inline void SplitScalesQ4_K(const uint8_t* packed, uint8_t* scales, uint8_t* minima) {
  for (size_t i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 63;
    minima[i] = packed[i + 4] & 63;
    scales[i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | packed[i] >> 6 << 4);
    minima[i + 4] = static_cast<uint8_t>(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
  }
}

// Q3_K: 16 scales of six bits, less 32. The low four bits fill the nibbles of 8 bytes, low nibbles
// first; the upper two are spread over the last four bytes, four scales to a pair of bits.
inline void SplitScalesQ3_K(const uint8_t* packed, int8_t* scales) {
  for (size_t i = 0; i < 16; ++i) {
    const int low = packed[i % 8] >> i / 8 * 4 & 15;
    const int high = packed[8 + i % 4] >> i / 4 * 2 & 3;
    scales[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_BLOCK_LAYOUT_H_

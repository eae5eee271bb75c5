// Numbers for tests of kernels: reproducible ones, and weights in the formats a driver reads.
#ifndef NPUBANK_TESTS_UNIT_SOFTWARE_NPU_NUMBERS_H_
#define NPUBANK_TESTS_UNIT_SOFTWARE_NPU_NUMBERS_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "npubank/lazy_tensor/element_type.h"

namespace npubank {

inline std::vector<float> RandomFloats(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(n));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// Numbers that F16, BF16 and F32 all hold exactly: quarters below 2.
inline std::vector<float> RandomQuarters(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> quarters(-7, 7);
  std::vector<float> numbers(static_cast<size_t>(n));
  for (float& number : numbers) number = static_cast<float>(quarters(random)) / 4;
  return numbers;
}

// The bytes of exactly held numbers of |x| < 2 as `element`: F32, F16 or BF16.
inline std::vector<uint8_t> Encode(const std::vector<float>& numbers, ElementType element) {
  const size_t width = static_cast<size_t>(BitWidth(element)) / 8;
  std::vector<uint8_t> bytes(numbers.size() * width);
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(numbers[i]);
    if (element == ElementType::kBF16) bits >>= 16;
    if (element == ElementType::kF16) {
      const uint32_t sign = bits >> 31;
      const uint32_t exponent = bits >> 23 & 0xff;
      // Rebiased from 127 to 15; zero stays zero.
      bits = sign << 15 | (exponent == 0 ? 0 : (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
    }
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_SOFTWARE_NPU_NUMBERS_H_

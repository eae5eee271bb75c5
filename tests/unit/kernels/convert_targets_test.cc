// Convert against ReferenceConvert, bit for bit, on every instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/tests/unit/kernels/every_target.h"

namespace npubank::kernels {
namespace {

struct Type {
  ElementType type;
  const char* name;
  size_t bits;
};
constexpr Type kTypes[] = {
    {ElementType::kF32, "F32", 32},      {ElementType::kF16, "F16", 16},
    {ElementType::kBF16, "BF16", 16},    {ElementType::kF8E4M3, "F8E4M3", 8},
    {ElementType::kF8E5M2, "F8E5M2", 8}, {ElementType::kF64, "F64", 64},
    {ElementType::kI64, "I64", 64},      {ElementType::kI32, "I32", 32},
    {ElementType::kI16, "I16", 16},      {ElementType::kI8, "I8", 8},
    {ElementType::kU64, "U64", 64},      {ElementType::kU32, "U32", 32},
    {ElementType::kU16, "U16", 16},      {ElementType::kU8, "U8", 8},
    {ElementType::kBool, "Bool", 8},     {ElementType::kI4, "I4", 4},
    {ElementType::kU4, "U4", 4},         {ElementType::kNF4, "NF4", 4},
};

size_t BytesOf(const Type& type, size_t count) { return (count * type.bits + 7) / 8; }

using ConvertTargets = EveryTarget;
NPUBANK_ON_EVERY_TARGET(ConvertTargets);

// Converts `count` elements between guard bytes, `misaligned` bytes off any alignment.
void ExpectAgreement(const Type& from, const uint8_t* in, const Type& to, size_t count,
                     size_t misaligned, bool stream = false) {
  const size_t size = BytesOf(to, count);
  const Bytes source(in, in + BytesOf(from, count));
  Bytes shifted(misaligned);
  shifted.insert(shifted.end(), source.begin(), source.end());
  Bytes expected(misaligned + size + 64, 0xA5);
  Bytes actual = expected;
  ReferenceConvert(from.type, source.data(), to.type, expected.data() + misaligned, count);
  Convert(from.type, shifted.data() + misaligned, to.type, actual.data() + misaligned, count,
          stream);
  ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
      << from.name << " to " << to.name << ", " << count << " elements, misaligned by "
      << misaligned;
}

// Wherever it is, and however many there are: whole vectors and what is left of one.
TEST_P(ConvertTargets, FindTheFirstNumberBeyondF16) {
  constexpr size_t kMost = 150;
  std::vector<float> wide(kMost, -65504.0f);
  std::vector<uint16_t> brain(kMost, 0xFF80);  // an infinity, which is none
  for (size_t count = 0; count < kMost; ++count) {
    EXPECT_EQ(FirstBeyondF16(ElementType::kF32, wide.data(), count), count);
    EXPECT_EQ(FirstBeyondF16(ElementType::kBF16, brain.data(), count), count);
    for (size_t at = 0; at < count; at += 7) {
      wide[at] = -65520.0f;
      brain[at] = 0x4780;  // 65536
      EXPECT_EQ(FirstBeyondF16(ElementType::kF32, wide.data(), count), at) << count;
      EXPECT_EQ(FirstBeyondF16(ElementType::kBF16, brain.data(), count), at) << count;
      wide[at] = NAN;
      brain[at] = 0x7FC0;
    }
    std::fill(wide.begin(), wide.end(), 65519.9f);
    std::fill(brain.begin(), brain.end(), uint16_t{0x477F});
  }
}

// Every value of a 16-bit type; of a narrower one too, many times over.
TEST_P(ConvertTargets, AgreeOnEveryValueOfSixteenBits) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const Type& from : kTypes) {
    if (from.bits > 16) continue;
    for (const Type& to : kTypes) {
      if (!CanConvert(from.type, to.type) || to.bits > 32) continue;
      ExpectAgreement(from, reinterpret_cast<const uint8_t*>(all.data()), to, all.size(), 0);
    }
  }
}

// Numbers near every boundary of every narrow format, and any bits at all.
std::vector<float> TestingFloats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const float boundaries[] = {0.0f,
                              0x1p-9f,
                              0x1p-6f,
                              0x1p-14f,
                              0x1p-16f,
                              0x1p-24f,
                              1.0f,
                              127.5f,
                              128.5f,
                              255.5f,
                              448.0f,
                              464.0f,
                              2049.0f,
                              32767.5f,
                              57344.0f,
                              65504.0f,
                              65520.0f,
                              65535.5f,
                              0x1p31f,
                              0x1p63f,
                              0x1p127f,
                              0x1p-126f,
                              0x1p-149f,
                              std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::signaling_NaN()};
  std::vector<float> floats(count);
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 4 == 1) {  // a few steps beside a boundary
      std::memcpy(&bits, &boundaries[bits % std::size(boundaries)], sizeof(bits));
      bits += static_cast<uint32_t>(random() % 9) - 4;
      bits ^= static_cast<uint32_t>(random() & 1) << 31;
    } else if (i % 4 == 2) {  // ties: the low bits are all zero but one
      bits &= ~0u << (random() % 24);
    } else if (i % 4 == 3) {  // the range of halves
      bits = (bits & 0x8FFFFFFF) | 0x30000000 | (bits & 0x07000000);
    }
    std::memcpy(&floats[i], &bits, sizeof(bits));
  }
  return floats;
}

TEST_P(ConvertTargets, AgreeOnFloats) {
  const uint64_t seed = PrintedSeed();
  const std::vector<float> floats = TestingFloats(100'003, seed);
  for (const Type& to : kTypes) {
    if (!CanConvert(ElementType::kF32, to.type)) continue;
    ExpectAgreement(kTypes[0], reinterpret_cast<const uint8_t*>(floats.data()), to, floats.size(),
                    0);
  }
}

TEST_P(ConvertTargets, AgreeOnEveryPairAndLengthWithoutTouchingTheNeighbours) {
  const uint64_t seed = PrintedSeed();
  const Bytes in = RandomBytes(8 * 2100, seed);
  for (const Type& from : kTypes) {
    for (const Type& to : kTypes) {
      if (!CanConvert(from.type, to.type)) continue;
      for (size_t count = 0; count < 70; ++count) {
        ExpectAgreement(from, in.data(), to, count, count % 5);
      }
      ExpectAgreement(from, in.data(), to, 1024, 1);
      ExpectAgreement(from, in.data(), to, 1025, 0);
      ExpectAgreement(from, in.data(), to, 2079, 3);
    }
  }
}

// Long enough for blocks of pages, with something before and behind them.
TEST_P(ConvertTargets, AgreeOnEveryPairPastTheCache) {
  const uint64_t seed = PrintedSeed();
  const Bytes in = RandomBytes(8 * 40'100, seed);
  for (const Type& from : kTypes) {
    for (const Type& to : kTypes) {
      if (!CanConvert(from.type, to.type)) continue;
      const size_t count = 20'001 * 8 / to.bits;
      for (const size_t misaligned : {0, 1, 2, 48}) {
        ExpectAgreement(from, in.data(), to, count, misaligned, true);
      }
      ExpectAgreement(from, in.data(), to, 100, 0, true);
    }
  }
}

}  // namespace
}  // namespace npubank::kernels

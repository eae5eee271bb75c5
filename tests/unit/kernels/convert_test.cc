#include "npubank/lazy_tensor/kernels/convert.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace npubank::kernels {
namespace {

using ::testing::ElementsAre;

template <typename Out, typename In>
std::vector<Out> Converted(ElementType from, const std::vector<In>& in, ElementType to) {
  std::vector<Out> out(in.size());
  Convert(from, in.data(), to, out.data(), in.size());
  return out;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Convert, F32ToF16RoundsToNearestEvenAndSaturates) {
  // 2048 + 1 and 2048 + 3 lie halfway between two halves; 2^-25 halfway between 0 and the smallest.
  EXPECT_THAT(Converted<uint16_t>(
                  ElementType::kF32,
                  std::vector<float>{1.0f, -2.0f, 2049.0f, 2051.0f, 65519.0f, 65520.0f, -1e30f,
                                     kInfinity, -kInfinity, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, -0.0f},
                  ElementType::kF16),
              ElementsAre(0x3C00, 0xC000, 0x6800, 0x6802, 0x7BFF, 0x7BFF, 0xFBFF, 0x7BFF, 0xFBFF, 1,
                          0, 1, 0x8000));
}

TEST(Convert, NaNStaysNaNAndBecomesZeroAmongIntegers) {
  const std::vector<float> nan = {std::nanf("")};
  EXPECT_THAT(Converted<uint16_t>(ElementType::kF32, nan, ElementType::kF16), ElementsAre(0x7E00));
  EXPECT_THAT(Converted<uint16_t>(ElementType::kF32, nan, ElementType::kBF16), ElementsAre(0x7FC0));
  EXPECT_THAT(Converted<uint8_t>(ElementType::kF32, nan, ElementType::kF8E4M3), ElementsAre(0x7F));
  EXPECT_THAT(Converted<uint8_t>(ElementType::kF32, nan, ElementType::kF8E5M2), ElementsAre(0x7E));
  EXPECT_THAT(Converted<int32_t>(ElementType::kF32, nan, ElementType::kI32), ElementsAre(0));
}

TEST(Convert, FloatToIntegerRoundsToNearestEvenAndSaturates) {
  const std::vector<float> in = {0.5f, 1.5f, -2.5f, 127.5f, -1e9f, kInfinity, -kInfinity};
  EXPECT_THAT(Converted<int8_t>(ElementType::kF32, in, ElementType::kI8),
              ElementsAre(0, 2, -2, 127, -128, 127, -128));
  EXPECT_THAT(Converted<uint8_t>(ElementType::kF32, in, ElementType::kU8),
              ElementsAre(0, 2, 0, 128, 0, 255, 0));
  EXPECT_THAT(Converted<int64_t>(ElementType::kF32, in, ElementType::kI64),
              ElementsAre(0, 2, -2, 128, -1000000000, std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()));
}

TEST(Convert, IntegerToIntegerSaturates) {
  EXPECT_THAT(
      Converted<int8_t>(ElementType::kI32, std::vector<int32_t>{-129, -1, 128}, ElementType::kI8),
      ElementsAre(-128, -1, 127));
  EXPECT_THAT(
      Converted<uint64_t>(ElementType::kI64, std::vector<int64_t>{-1, 5}, ElementType::kU64),
      ElementsAre(0, 5));
  EXPECT_THAT(
      Converted<int64_t>(ElementType::kU64, std::vector<uint64_t>{~uint64_t{0}}, ElementType::kI64),
      ElementsAre(std::numeric_limits<int64_t>::max()));
}

TEST(Convert, AWideNumberIsRoundedOnce) {
  // Just above a tie of F16: through a float it would become the tie and go down to even.
  EXPECT_THAT(Converted<uint16_t>(ElementType::kF64, std::vector<double>{2049.0 + 0x1p-40},
                                  ElementType::kF16),
              ElementsAre(0x6801));
  // The same for an integer that neither a float nor a double holds: 2^63 + 2^55 + 1 in BF16.
  EXPECT_THAT(
      Converted<uint16_t>(ElementType::kU64,
                          std::vector<uint64_t>{(uint64_t{1} << 63) + (uint64_t{1} << 55) + 1},
                          ElementType::kBF16),
      ElementsAre(0x5F01));
}

TEST(Convert, FourBitRunsStartInTheLowNibble) {
  EXPECT_THAT(Converted<float>(ElementType::kI4, std::vector<uint8_t>{0x8F}, ElementType::kF32),
              ElementsAre(-1.0f));
  std::vector<float> two(2);
  Convert(ElementType::kI4, "\x8F", ElementType::kF32, two.data(), 2);
  EXPECT_THAT(two, ElementsAre(-1.0f, -8.0f));
  std::vector<uint8_t> packed(2, 0xEE);
  const float three[] = {1.0f, 99.0f, 7.0f};
  Convert(ElementType::kF32, three, ElementType::kU4, packed.data(), 3);
  EXPECT_THAT(packed, ElementsAre(0xF1, 0x07));
}

TEST(Convert, Nf4IndexesItsLevels) {
  std::vector<float> two(2);
  Convert(ElementType::kNF4, "\xF0", ElementType::kF32, two.data(), 2);
  EXPECT_THAT(two, ElementsAre(-1.0f, 1.0f));
  EXPECT_FALSE(CanConvert(ElementType::kF32, ElementType::kNF4));
  EXPECT_TRUE(CanConvert(ElementType::kNF4, ElementType::kNF4));
}

}  // namespace
}  // namespace npubank::kernels

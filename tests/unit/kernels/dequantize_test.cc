// Dequantize: by hand, and against its plain loop on every instruction set.
#include "npubank/lazy_tensor/kernels/dequantize.h"

#include <random>

#include "gmock/gmock.h"
#include "npubank/tests/unit/kernels/every_target.h"

namespace npubank::kernels {
namespace {

using ::testing::ElementsAre;

TEST(Dequantize, TakesTheZeroPointOffAndScales) {
  const uint8_t packed[] = {0x80, 0xF7};  // 0 8 7 15
  const float scales[] = {0.5f, 2.0f};
  const float zeros[] = {8.0f, 7.0f};
  std::vector<float> out(4);
  Dequantize(
      {.type = ElementType::kU4, .weights = packed, .scales = scales, .zeros = zeros, .group = 2},
      ElementType::kF32, out.data(), 4);
  EXPECT_THAT(out, ElementsAre(-4.0f, 0.0f, 0.0f, 16.0f));
}

TEST(Dequantize, ARunMayStartInsideItsGroup) {
  const int8_t weights[] = {1, 1, 1, 1};
  const float scales[] = {1.0f, 2.0f, 3.0f};
  std::vector<float> out(4);
  Dequantize(
      {.type = ElementType::kI8, .weights = weights, .scales = scales, .group = 2, .first = 1},
      ElementType::kF32, out.data(), 4);
  EXPECT_THAT(out, ElementsAre(1.0f, 2.0f, 2.0f, 3.0f));
}

TEST(Dequantize, SaturatesInHalvesAndBytes) {
  const int8_t weights[] = {127, -128};
  const float scale = 1000.0f;
  std::vector<uint16_t> halves(2);
  const QuantizedRun run = {
      .type = ElementType::kI8, .weights = weights, .scales = &scale, .group = 100};
  Dequantize(run, ElementType::kF16, halves.data(), 2);
  EXPECT_THAT(halves, ElementsAre(0x7BFF, 0xFBFF));
  std::vector<int8_t> bytes(2);
  Dequantize(run, ElementType::kI8, bytes.data(), 2);
  EXPECT_THAT(bytes, ElementsAre(127, -128));
}

using DequantizeTargets = EveryTarget;
NPUBANK_ON_EVERY_TARGET(DequantizeTargets);

constexpr ElementType kWeights[] = {ElementType::kI4,  ElementType::kU4,     ElementType::kNF4,
                                    ElementType::kI8,  ElementType::kU8,     ElementType::kI16,
                                    ElementType::kU16, ElementType::kF8E4M3, ElementType::kF8E5M2,
                                    ElementType::kF16, ElementType::kBF16,   ElementType::kF32};
constexpr ElementType kResults[] = {ElementType::kF32, ElementType::kF16, ElementType::kBF16,
                                    ElementType::kI8, ElementType::kU8};

TEST_P(DequantizeTargets, AgreeOnEveryTypeGroupAndLength) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> scale(-3.0f, 3.0f);
  const Bytes weights = RandomBytes(4 * 4000, random());
  std::vector<float> scales(4000);
  std::vector<float> zeros(4000);
  for (float& s : scales) s = scale(random);
  for (float& z : zeros) z = static_cast<float>(random() % 256);
  for (const size_t group : {1, 2, 3, 15, 16, 17, 32, 100, 128, 100000}) {
    for (const size_t count : {0, 1, 5, 15, 16, 17, 31, 33, 100, 1024, 1025, 2500}) {
      for (const ElementType type : kWeights) {
        for (const ElementType to : kResults) {
          ASSERT_TRUE(CanDequantize(type, to));
          const QuantizedRun run = {.type = type,
                                    .weights = weights.data() + count % 3,
                                    .scales = scales.data(),
                                    .zeros = count % 2 == 0 ? zeros.data() : nullptr,
                                    .group = group,
                                    .first = count % group};
          Bytes expected(4 * count + 17, 0x5A);
          Bytes actual = expected;
          ReferenceDequantize(run, to, expected.data() + 1, count);
          Dequantize(run, to, actual.data() + 1, count);
          ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
              << "type " << static_cast<int>(type) << " to " << static_cast<int>(to) << ", group "
              << group << ", " << count << " elements";
        }
      }
    }
  }
}

TEST_P(DequantizeTargets, StreamingIsOnlyAnotherWayToWrite) {
  const uint64_t seed = PrintedSeed();
  const Bytes weights = RandomBytes(4096, seed);
  const std::vector<float> scales(4096, 0.37f);
  Bytes room(2 * 4096 + 128);
  uint8_t* line = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  for (const size_t group : {1, 3, 16, 20, 128}) {
    for (const size_t first : {0, 16, 17}) {
      for (const size_t count : {0, 16, 100, 1024, 1040, 4096 - 1}) {
        for (const size_t misaligned : {0, 2, 32}) {
          QuantizedRun run = {.type = ElementType::kU8,
                              .weights = weights.data(),
                              .scales = scales.data(),
                              .group = group,
                              .first = group > first ? first : 0};
          Bytes expected(2 * count);
          ReferenceDequantize(run, ElementType::kF16, expected.data(), count);
          run.stream = true;
          Dequantize(run, ElementType::kF16, line + misaligned, count);
          const Bytes actual(line + misaligned, line + misaligned + 2 * count);
          ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
              << "group " << group << " from " << first << ", " << count << " elements";
        }
      }
    }
  }
}

}  // namespace
}  // namespace npubank::kernels

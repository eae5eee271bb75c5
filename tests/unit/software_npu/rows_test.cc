#include "npubank/runtime/software_npu/kernels/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "npubank/tests/unit/software_npu/numbers.h"

namespace npubank::software_npu {
namespace {

WeightOperand Table(const std::vector<uint8_t>& bytes, ElementType element, int64_t rows,
                    int64_t columns) {
  return {.parts = {bytes.data()}, .element = element, .rows = rows, .columns = columns};
}

class WeightedRowsTest : public ::testing::TestWithParam<ElementType> {};

TEST_P(WeightedRowsTest, EmbedTakesRowsOfTheTable) {
  const std::vector<float> table = RandomQuarters(5 * 37, 1);
  const std::vector<uint8_t> bytes = Encode(table, GetParam());
  const std::vector<int32_t> ids = {4, 0, 4};
  std::vector<float> out(3 * 37);
  ASSERT_TRUE(Embed(ids.data(), 3, Table(bytes, GetParam(), 5, 37), out.data()));
  for (size_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < 37; ++i) {
      EXPECT_EQ(out[r * 37 + i], table[static_cast<size_t>(ids[r]) * 37 + i]);
    }
  }
}

TEST_P(WeightedRowsTest, EmbedRefusesIdsThatAreNotInTheTable) {
  const std::vector<uint8_t> bytes = Encode(RandomQuarters(5 * 4, 1), GetParam());
  std::vector<float> out(4);
  for (int32_t id : {-1, 5, INT32_MIN, INT32_MAX}) {
    EXPECT_FALSE(Embed(&id, 1, Table(bytes, GetParam(), 5, 4), out.data())) << id;
  }
}

TEST_P(WeightedRowsTest, RmsNormDividesByTheRootMeanSquare) {
  constexpr size_t kWidth = 45;
  const std::vector<float> x = RandomFloats(2 * kWidth, 1);
  const std::vector<float> weight = RandomQuarters(kWidth, 2);
  const std::vector<uint8_t> bytes = Encode(weight, GetParam());
  std::vector<float> out = x;  // in place
  RmsNorm(out.data(), 2, kWidth, bytes.data(), GetParam(), 1e-5f, out.data());
  for (size_t r = 0; r < 2; ++r) {
    double squares = 0;
    for (size_t i = 0; i < kWidth; ++i) squares += double{x[r * kWidth + i]} * x[r * kWidth + i];
    const double scale = 1 / std::sqrt(squares / kWidth + 1e-5);
    for (size_t i = 0; i < kWidth; ++i) {
      EXPECT_NEAR(out[r * kWidth + i], x[r * kWidth + i] * scale * weight[i], 1e-5);
    }
  }
}

TEST_P(WeightedRowsTest, ABiasIsAddedToEveryRowInPlace) {
  constexpr size_t kWidth = 45;
  const std::vector<float> x = RandomQuarters(2 * kWidth, 1);
  const std::vector<float> bias = RandomQuarters(kWidth, 2);
  const std::vector<uint8_t> bytes = Encode(bias, GetParam());
  std::vector<float> out = x;
  AddBias(out.data(), 2, kWidth, bytes.data(), GetParam(), out.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], x[i] + bias[i % kWidth]) << i;
}

INSTANTIATE_TEST_SUITE_P(Elements, WeightedRowsTest,
                         ::testing::Values(ElementType::kF32, ElementType::kF16,
                                           ElementType::kBF16),
                         [](const auto& test) { return std::string(ElementTypeName(test.param)); });

TEST(RopeTest, TurnsPairsByPositionTimesFrequency) {
  const std::vector<float> frequencies = {1.0f, 0.1f};
  for (bool interleaved : {false, true}) {
    const std::vector<float> x = RandomFloats(2 * 8, 1);  // two rows of two heads of four
    std::vector<float> out(x.size());
    Rope(x.data(), 2, 8, 4, 7, frequencies, interleaved, out.data());
    for (size_t r = 0; r < 2; ++r) {
      for (size_t head = 0; head < 2; ++head) {
        for (size_t i = 0; i < 2; ++i) {
          const size_t base = r * 8 + head * 4;
          const size_t first = base + (interleaved ? 2 * i : i);
          const size_t second = base + (interleaved ? 2 * i + 1 : i + 2);
          const double angle = (7.0 + static_cast<double>(r)) * frequencies[i];
          EXPECT_NEAR(out[first], x[first] * std::cos(angle) - x[second] * std::sin(angle), 1e-5);
          EXPECT_NEAR(out[second], x[first] * std::sin(angle) + x[second] * std::cos(angle), 1e-5);
        }
      }
    }
  }
}

TEST(RopeTest, PositionZeroChangesNothing) {
  const std::vector<float> frequencies = {1.0f, 0.5f, 0.25f};
  const std::vector<float> x = RandomFloats(6, 1);
  std::vector<float> out = x;
  Rope(out.data(), 1, 6, 6, 0, frequencies, false, out.data());
  EXPECT_EQ(out, x);
}

TEST(SiluMulTest, IsGateTimesItsSigmoidTimesUp) {
  const std::vector<float> gate = {0, 1, -1, 50, -50, 100, -100};
  const std::vector<float> up = {1, 2, 3, 4, 5, 6, 7};
  std::vector<float> out(gate.size());
  SiluMul(gate.data(), up.data(), 1, 7, out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    EXPECT_NEAR(out[i], gate[i] / (1 + std::exp(-double{gate[i]})) * up[i], 1e-4) << gate[i];
  }
}

TEST(AddTest, AddsElementByElementInPlace) {
  std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {10, 20, 30};
  Add(a.data(), b.data(), 1, 3, a.data());
  EXPECT_EQ(a, (std::vector<float>{11, 22, 33}));
}

}  // namespace
}  // namespace npubank::software_npu

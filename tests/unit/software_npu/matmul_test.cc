#include "npubank/runtime/software_npu/kernels/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "npubank/tests/unit/software_npu/numbers.h"

namespace npubank::software_npu {
namespace {

// Element, transposed, depth, columns.
using Case = std::tuple<ElementType, bool, int64_t, int64_t>;

class MatMulTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kRows = 70;  // more than a block of rows, and no multiple of a tile

  MatMulTest()
      : element_(std::get<0>(GetParam())),
        transposed_(std::get<1>(GetParam())),
        depth_(std::get<2>(GetParam())),
        columns_(std::get<3>(GetParam())),
        x_(RandomFloats(kRows * depth_, 1)),
        weights_(RandomQuarters(depth_ * columns_, 2)),
        bytes_(Encode(weights_, element_)) {}

  float Weight(int64_t k, int64_t c) const {
    return weights_[static_cast<size_t>(transposed_ ? c * depth_ + k : k * columns_ + c)];
  }

  std::vector<float> Run(int64_t first_row, int64_t rows, const float* addend) const {
    std::vector<float> out(static_cast<size_t>(rows * columns_), NAN);
    MatMul({x_.data() + first_row * depth_, rows, depth_, bytes_.data(), element_, transposed_,
            columns_, addend, out.data()});
    return out;
  }

  ElementType element_;
  bool transposed_;
  int64_t depth_;
  int64_t columns_;
  std::vector<float> x_;
  std::vector<float> weights_;
  std::vector<uint8_t> bytes_;
};

TEST_P(MatMulTest, IsTheProductOfTheMatrices) {
  const std::vector<float> out = Run(0, kRows, nullptr);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < columns_; ++c) {
      double sum = 0;
      double size = 0;
      for (int64_t k = 0; k < depth_; ++k) {
        const double product = double{x_[static_cast<size_t>(r * depth_ + k)]} * Weight(k, c);
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(out[static_cast<size_t>(r * columns_ + c)], sum, 1e-6 * size + 1e-6)
          << "row " << r << " column " << c;
    }
  }
}

TEST_P(MatMulTest, ARowIsBitEqualWhateverTheNumberOfRows) {
  const std::vector<float> all = Run(0, kRows, nullptr);
  for (int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 65}) {
    const int64_t first = rows % 5;
    const std::vector<float> some = Run(first, rows, nullptr);
    for (size_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(some[i], all[static_cast<size_t>(first * columns_) + i])
          << rows << " rows from " << first << ", element " << i;
    }
  }
}

TEST_P(MatMulTest, AddsWhatIsThereAlready) {
  for (int64_t rows : {int64_t{1}, kRows}) {
    const std::vector<float> plain = Run(0, rows, nullptr);
    std::vector<float> sums = RandomFloats(rows * columns_, 3);
    const std::vector<float> before = sums;
    MatMul({x_.data(), rows, depth_, bytes_.data(), element_, transposed_, columns_, sums.data(),
            sums.data()});
    for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], before[i] + plain[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatMulTest,
                         ::testing::Combine(::testing::Values(ElementType::kF32, ElementType::kF16,
                                                              ElementType::kBF16),
                                            ::testing::Bool(), ::testing::Values(1, 64, 172, 301),
                                            ::testing::Values(1, 8, 67, 300)),
                         [](const auto& test) {
                           return std::string(ElementTypeName(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) ? "_transposed_" : "_plain_") +
                                  std::to_string(std::get<2>(test.param)) + "x" +
                                  std::to_string(std::get<3>(test.param));
                         });

// Wide enough for one row's strips to be many.
TEST(MatMulStripTest, StripsOfOneRowMeetWithoutASeam) {
  constexpr int64_t kDepth = 33;
  constexpr int64_t kColumns = 9001;
  const std::vector<float> x = RandomFloats(kDepth, 4);
  const std::vector<float> ones(static_cast<size_t>(kDepth * kColumns), 1.0f);
  std::vector<float> out(static_cast<size_t>(kColumns), NAN);
  MatMul(
      {x.data(), 1, kDepth, ones.data(), ElementType::kF32, false, kColumns, nullptr, out.data()});
  for (float number : out) ASSERT_EQ(number, out[0]);
}

}  // namespace
}  // namespace npubank::software_npu

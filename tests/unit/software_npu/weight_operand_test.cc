// Weights in parts: what is computed over them is, bit for bit, what is computed over their numbers in F32.
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/runtime/software_npu/kernels/matmul.h"
#include "npubank/runtime/software_npu/kernels/rows.h"
#include "npubank/tests/unit/software_npu/numbers.h"
#include "npubank/tests/unit/software_npu/plain_weight.h"

namespace npubank::software_npu {
namespace {

void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected,
                    const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
        << what << ", element " << i << ": " << found[i] << " and not " << expected[i];
  }
}

TEST(WeightOperandTest, DecodesToTheNumbersOfAPlainLoop) {
  for (const PlainWeight& w : EveryWeight()) {
    std::vector<float> out(w.numbers.size(), NAN);
    if (w.form.by_rows()) {
      DecodeRows(w.Operand(), 0, 2, out.data());
      DecodeRows(w.Operand(), 2, w.rows - 2, out.data() + 2 * w.columns);
    } else {
      const WeightOperand operand = w.Operand();
      WordDecoder words(operand, 0, w.columns);
      for (int64_t k = 0; k < w.rows; k += 8) {
        words.Decode(k, std::min<int64_t>(8, w.rows - k), out.data() + k * w.columns);
      }
    }
    ExpectSameBits(out, w.numbers, w.ToString());
  }
}

TEST(WeightOperandTest, AMatMulIsThatOverTheNumbersWhateverTheRows) {
  constexpr int64_t kMostRows = 70;
  for (const PlainWeight& w : EveryWeight()) {
    const int64_t depth = w.form.by_rows() ? w.columns : w.rows;
    const int64_t columns = w.form.by_rows() ? w.rows : w.columns;
    const std::vector<float> x = RandomFloats(kMostRows * depth, 1);
    const WeightOperand parts = w.Operand();
    for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{8}, kMostRows}) {
      const std::vector<float> addend = RandomFloats(rows * columns, 2);
      MatMulOperands m{.x = x.data(), .rows = rows, .depth = depth, .weight = w.numbers.data(),
                       .element = ElementType::kF32, .transposed = w.form.by_rows(),
                       .columns = columns, .addend = rows == 3 ? addend.data() : nullptr};
      std::vector<float> expected(static_cast<size_t>(rows * columns), NAN);
      m.out = expected.data();
      MatMul(m);
      std::vector<float> out(expected.size(), NAN);
      m.weight = nullptr;
      m.parts = &parts;
      m.out = out.data();
      MatMul(m);
      ExpectSameBits(out, expected, absl::StrCat(w.ToString(), " under ", rows, " rows"));
    }
  }
}

TEST(WeightOperandTest, AGroupThatIsNotThereIsSeenBeforeItIsLookedUp) {
  const PlainWeight w =
      RandomWeight(WeightForm::Gptq(true, 4, /*groups_listed=*/true), ElementType::kI32, 64, 16, 4, 1);
  EXPECT_TRUE(ListedGroupsExist(w.Operand()));
  for (const int32_t forged : {-1, 4, 1 << 30, INT32_MIN}) {
    PlainWeight hostile = w;
    std::memcpy(hostile.parts[3].data() + 4 * 37, &forged, sizeof(forged));
    EXPECT_FALSE(ListedGroupsExist(hostile.Operand())) << forged;
  }
}

TEST(WeightOperandTest, AnEmbeddingLooksUpItsNumbers) {
  const std::vector<int32_t> ids = {7, 0, 10, 7};
  for (const PlainWeight& w : EveryWeight()) {
    if (!w.form.by_rows()) continue;
    std::vector<float> expected;
    for (int32_t id : ids) {
      const auto row = w.numbers.begin() + id * w.columns;
      expected.insert(expected.end(), row, row + w.columns);
    }
    std::vector<float> out(expected.size(), NAN);
    ASSERT_TRUE(Embed(ids.data(), 4, w.Operand(), out.data()));
    ExpectSameBits(out, expected, w.ToString());
  }
}

}  // namespace
}  // namespace npubank::software_npu

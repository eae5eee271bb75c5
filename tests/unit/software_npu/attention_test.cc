#include "npubank/runtime/software_npu/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "npubank/tests/unit/software_npu/numbers.h"

namespace npubank::software_npu {
namespace {

// Four query heads that share two cache heads, three rows of a chunk of five at position 6 of 12.
constexpr AttentionOperands kOperands = {6, 3, 5, 12, 4 * 20, 2 * 20, 20, 4, 0, 2};

size_t ScoreAt(const AttentionOperands& a, int64_t head, int64_t row, int64_t position) {
  return static_cast<size_t>((head * a.rows + row) * a.positions + position);
}

class AttentionTest : public ::testing::Test {
 protected:
  std::vector<float> q_ = RandomFloats(kOperands.rows * kOperands.width, 1);
  std::vector<float> keys_ = RandomFloats(kOperands.positions * kOperands.cache_width, 2);
  std::vector<float> values_ = RandomFloats(kOperands.positions * kOperands.cache_width, 3);
  std::vector<float> scores_ = std::vector<float>(
      static_cast<size_t>(kOperands.heads * kOperands.rows * kOperands.positions), NAN);
  std::vector<float> out_ =
      std::vector<float>(static_cast<size_t>(kOperands.rows * kOperands.width), NAN);
};

TEST_F(AttentionTest, ScoresAreScaledDotProductsUpToTheRowsOwnPosition) {
  AttentionScores(kOperands, q_.data(), keys_.data(), 0.25f, scores_.data());
  for (int64_t head = 0; head < kOperands.heads; ++head) {
    for (int64_t row = 0; row < kOperands.count; ++row) {
      for (int64_t p = 0; p <= kOperands.start + row; ++p) {
        double dot = 0;
        for (int64_t d = 0; d < kOperands.head_dim; ++d) {
          dot += double{q_[static_cast<size_t>(row * kOperands.width + head * 20 + d)]} *
                 keys_[static_cast<size_t>(p * kOperands.cache_width + head / 2 * 20 + d)];
        }
        EXPECT_NEAR(scores_[ScoreAt(kOperands, head, row, p)], 0.25 * dot, 1e-5);
      }
    }
  }
}

TEST_F(AttentionTest, NothingAfterTheRowsPositionIsRead) {
  for (size_t i = static_cast<size_t>((kOperands.start + kOperands.count) * kOperands.cache_width);
       i < keys_.size(); ++i) {
    keys_[i] = values_[i] = NAN;
  }
  AttentionScores(kOperands, q_.data(), keys_.data(), 1, scores_.data());
  CausalSoftmax(kOperands, scores_.data(), scores_.data());
  AttentionMix(kOperands, scores_.data(), values_.data(), out_.data());
  for (int64_t i = 0; i < kOperands.count * kOperands.width; ++i) {
    EXPECT_FALSE(std::isnan(out_[static_cast<size_t>(i)])) << i;
  }
}

TEST_F(AttentionTest, ProbabilitiesSumToOneAndAreZeroForWhatComesLater) {
  AttentionScores(kOperands, q_.data(), keys_.data(), 1, scores_.data());
  CausalSoftmax(kOperands, scores_.data(), scores_.data());
  for (int64_t head = 0; head < kOperands.heads; ++head) {
    for (int64_t row = 0; row < kOperands.count; ++row) {
      double sum = 0;
      for (int64_t p = 0; p < kOperands.positions; ++p) {
        const float probability = scores_[ScoreAt(kOperands, head, row, p)];
        sum += probability;
        if (p > kOperands.start + row) {
          EXPECT_EQ(probability, 0) << p;
        }
      }
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
}

TEST_F(AttentionTest, SoftmaxOfLargeScoresDoesNotOverflow) {
  const AttentionOperands a = {1, 1, 1, 2, 1, 1, 1, 1, 0, 1};
  const std::vector<float> scores = {1000, 999};
  std::vector<float> probabilities(2);
  CausalSoftmax(a, scores.data(), probabilities.data());
  EXPECT_NEAR(probabilities[0], 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST_F(AttentionTest, PartOfTheHeadsWritesOnlyItsColumns) {
  AttentionScores(kOperands, q_.data(), keys_.data(), 1, scores_.data());
  CausalSoftmax(kOperands, scores_.data(), scores_.data());
  std::vector<float> whole(out_.size(), NAN);
  AttentionMix(kOperands, scores_.data(), values_.data(), whole.data());

  AttentionOperands part = kOperands;
  part.heads = 1;
  part.first_head = 3;
  std::vector<float> part_scores(static_cast<size_t>(part.rows * part.positions), NAN);
  AttentionScores(part, q_.data(), keys_.data(), 1, part_scores.data());
  CausalSoftmax(part, part_scores.data(), part_scores.data());
  AttentionMix(part, part_scores.data(), values_.data(), out_.data());
  for (int64_t row = 0; row < part.count; ++row) {
    for (int64_t c = 0; c < part.width; ++c) {
      const auto at = static_cast<size_t>(row * part.width + c);
      if (c < 60) {
        EXPECT_TRUE(std::isnan(out_[at])) << row << "," << c;
      } else {
        EXPECT_EQ(out_[at], whole[at]) << row << "," << c;
      }
    }
  }
}

TEST_F(AttentionTest, ARowAloneIsBitEqualToTheRowInAChunk) {
  AttentionScores(kOperands, q_.data(), keys_.data(), 1, scores_.data());
  CausalSoftmax(kOperands, scores_.data(), scores_.data());
  AttentionMix(kOperands, scores_.data(), values_.data(), out_.data());
  AttentionOperands one = kOperands;
  one.start += 2;
  one.count = one.rows = 1;
  std::vector<float> scores(static_cast<size_t>(one.heads * one.positions));
  std::vector<float> out(static_cast<size_t>(one.width));
  AttentionScores(one, q_.data() + 2 * one.width, keys_.data(), 1, scores.data());
  CausalSoftmax(one, scores.data(), scores.data());
  AttentionMix(one, scores.data(), values_.data(), out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], out_[2 * static_cast<size_t>(one.width) + i]) << i;
  }
}

// Rows stand at 6, 7 and 8: a window of seven hides nothing, one and two positions from them.
TEST_F(AttentionTest, OnlyTheWindowIsReadAndHasProbabilities) {
  AttentionOperands a = kOperands;
  a.window = 7;
  for (int64_t i = 0; i < a.cache_width; ++i) {  // position 0, which row 0 sees and the others do not
    keys_[static_cast<size_t>(i)] = values_[static_cast<size_t>(i)] = NAN;
  }
  AttentionScores(a, q_.data(), keys_.data(), 1, scores_.data());
  CausalSoftmax(a, scores_.data(), scores_.data());
  AttentionMix(a, scores_.data(), values_.data(), out_.data());
  for (int64_t c = 0; c < a.width; ++c) {
    EXPECT_TRUE(std::isnan(out_[static_cast<size_t>(c)]));
    EXPECT_FALSE(std::isnan(out_[static_cast<size_t>(a.width + c)]));
    EXPECT_FALSE(std::isnan(out_[static_cast<size_t>(2 * a.width + c)]));
  }
  for (int64_t head = 0; head < a.heads; ++head) {
    EXPECT_EQ(scores_[ScoreAt(a, head, 1, 0)], 0);
    EXPECT_GT(scores_[ScoreAt(a, head, 1, 1)], 0);
    EXPECT_EQ(scores_[ScoreAt(a, head, 2, 1)], 0);
    EXPECT_GT(scores_[ScoreAt(a, head, 2, 2)], 0);
  }
}

}  // namespace
}  // namespace npubank::software_npu

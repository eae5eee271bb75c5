#include "npubank/lazy_tensor/base/range.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace npubank {
namespace {

TEST(Range, FitsUpToTheEndAndNoFurther) {
  EXPECT_TRUE(RangeFits(0, 10, 10));
  EXPECT_TRUE(RangeFits(4, 6, 10));
  EXPECT_TRUE(RangeFits(10, 0, 10)) << "an empty one at the end";
  EXPECT_TRUE(RangeFits(0, 0, 0));
  EXPECT_FALSE(RangeFits(4, 7, 10));
  EXPECT_FALSE(RangeFits(11, 0, 10));
  EXPECT_FALSE(RangeFits(0, 11, 10));
}

TEST(Range, WhoseEndOverflowsDoesNotFit) {
  EXPECT_FALSE(RangeFits(UINT64_MAX, 2, 10));
  EXPECT_FALSE(RangeFits(2, UINT64_MAX, 10));
  EXPECT_FALSE(RangeFits(UINT64_MAX, UINT64_MAX, UINT64_MAX));
  EXPECT_TRUE(RangeFits(0, UINT64_MAX, UINT64_MAX));
}

TEST(Range, ThatDoesNotFitIsOutOfRangeAndSaysOfWhat) {
  EXPECT_TRUE(CheckRange("weights", 4, 6, 10).ok());
  const absl::Status status = CheckRange("weights", 4, 7, 10);
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_EQ(status.message(), "weights: 7 bytes at 4 lie beyond its 10 bytes");
}

}  // namespace
}  // namespace npubank

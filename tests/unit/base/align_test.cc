#include "npubank/lazy_tensor/base/align.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace npubank {
namespace {

TEST(AlignUp, GivesTheNextMultiple) {
  for (uint64_t alignment : {1, 2, 3, 24, 64, 4096, 5000}) {
    for (uint64_t value = 0; value < 11000; ++value) {
      const uint64_t aligned = AlignUp<uint64_t>(value, alignment);
      ASSERT_EQ(aligned % alignment, 0u) << value << " to " << alignment;
      ASSERT_GE(aligned, value);
      ASSERT_LT(aligned - value, alignment) << value << " to " << alignment;
    }
  }
}

TEST(AlignUp, BeyondTheLastMultipleIsTheLargestNumberAndNeverASmallOne) {
  constexpr uint64_t kLast = UINT64_MAX - 4095;
  EXPECT_EQ(AlignUp<uint64_t>(kLast, 4096), kLast);
  EXPECT_EQ(AlignUp<uint64_t>(kLast + 1, 4096), UINT64_MAX);
  EXPECT_EQ(AlignUp<uint64_t>(UINT64_MAX, 4096), UINT64_MAX);
  EXPECT_EQ(AlignUp<uint64_t>(UINT64_MAX - 1, 5000), UINT64_MAX);
  EXPECT_EQ(AlignUp<int64_t>(INT64_MAX - 1, 64), INT64_MAX);
  EXPECT_EQ(AlignUp<int64_t>(INT64_MAX - 63, 64), INT64_MAX - 63);
}

}  // namespace
}  // namespace npubank

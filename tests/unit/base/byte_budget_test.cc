#include "npubank/lazy_tensor/base/byte_budget.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace npubank {
namespace {

TEST(ByteBudget, IsSpentToTheLastByte) {
  ByteBudget budget(10, "text");
  EXPECT_TRUE(budget.Spend(4).ok());
  EXPECT_TRUE(budget.Spend(0).ok());
  EXPECT_EQ(budget.left(), 6u);
  EXPECT_TRUE(budget.Spend(6).ok());
  EXPECT_TRUE(budget.Spend(0).ok());
  EXPECT_FALSE(budget.Spend(1).ok());
}

TEST(ByteBudget, WhatIsTooMuchIsRefusedByNameAndNotSpent) {
  ByteBudget budget(10, "text");
  const absl::Status status = budget.Spend(UINT64_MAX);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "more than 10 bytes of text");
  EXPECT_TRUE(budget.Spend(10).ok());
}

}  // namespace
}  // namespace npubank

#include "npubank/bank/books/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "npubank/bank/books/budget.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Eviction, WhatNobodyOwnsLeavesFirst) {
  EXPECT_THAT(
      ChooseVictims(
          {{.bytes = 10, .last_used = 1}, {.bytes = 10, .reclaimable = true, .last_used = 9}}, 10),
      ElementsAre(1));
}

TEST(Eviction, ThenWhatWasUsedLongestAgo) {
  EXPECT_THAT(ChooseVictims({{.bytes = 10, .last_used = 3},
                             {.bytes = 10, .last_used = 1, .seconds_to_return = 100},
                             {.bytes = 10, .last_used = 2}},
                            20),
              ElementsAre(1, 2));
}

TEST(Eviction, AmongEquallyOldTheCheapestPerByteToBringBack) {
  EXPECT_THAT(ChooseVictims({{.bytes = 10, .last_used = 1, .seconds_to_return = 2},
                             {.bytes = 100, .last_used = 1, .seconds_to_return = 3},
                             {.bytes = 10, .last_used = 1, .seconds_to_return = 1}},
                            105),
              ElementsAre(1, 2));
}

TEST(Eviction, NoMoreLeavesThanIsNeeded) {
  EXPECT_THAT(ChooseVictims({{.bytes = 10}, {.bytes = 10}, {.bytes = 10}}, 11), ElementsAre(0, 1));
}

TEST(Eviction, NothingLeavesWhenAllTogetherIsNotEnough) {
  EXPECT_THAT(ChooseVictims({{.bytes = 10}, {.bytes = 10}}, 21), IsEmpty());
  EXPECT_THAT(ChooseVictims({}, 1), IsEmpty());
}

TEST(Eviction, WhatGivesNothingBackStays) {
  EXPECT_THAT(ChooseVictims({{.bytes = 0, .reclaimable = true, .last_used = 1},
                             {.bytes = 10, .last_used = 5},
                             {.bytes = 0, .last_used = 2},
                             {.bytes = 10, .last_used = 5, .seconds_to_return = 1}},
                            11),
              ElementsAre(1, 3));
  EXPECT_THAT(ChooseVictims({{.bytes = 0}}, 1), IsEmpty());
}

TEST(Budget, NeverGivesOutMoreThanItHas) {
  auto budget = std::make_shared<Budget>(100);
  Reservation first(budget);
  EXPECT_TRUE(first.TryGrowTo(60));
  {
    Reservation second(budget);
    EXPECT_FALSE(second.TryGrowTo(41));
    EXPECT_FALSE(second.TryGrowTo(~uint64_t{0}));
    EXPECT_TRUE(second.TryGrowTo(40));
    EXPECT_FALSE(first.TryGrowTo(61));
    EXPECT_EQ(first.bytes(), 60u) << "a refusal changes nothing";
    EXPECT_EQ(budget->used(), 100u);
  }
  EXPECT_TRUE(first.TryGrowTo(100));
  const Reservation moved(std::move(first));
  EXPECT_EQ(budget->used(), 100u);
}

}  // namespace
}  // namespace npubank

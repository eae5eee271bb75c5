#include "npubank/bank/books/budget/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace npubank

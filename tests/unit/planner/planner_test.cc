#include "npubank/compiler_stub/planner/planner.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/compiler_stub/planner/files/csv.h"
#include "npubank/compiler_stub/planner/search/antichain.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"
#include "npubank/compiler_stub/planner/search/heuristics.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

Problem RandomProblem(std::mt19937* random, int buffers, int64_t moments, bool parallel) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(*random);
  };
  Problem problem;
  for (int i = 0; i < buffers; ++i) {
    const int64_t lower = pick(0, moments - 1);
    problem.buffers.push_back({.id = absl::StrCat("b", i),
                               .lower = lower,
                               .upper = pick(lower + 1, moments),
                               .size = static_cast<uint64_t>(pick(0, 9)),
                               .alignment = uint64_t{1} << pick(0, 2)});
  }
  if (parallel) problem.parallel = ParallelPairs(buffers);
  for (int i = 0; parallel && i < buffers; ++i) {
    for (int j = 0; j < i; ++j) {
      if (pick(0, 4) == 0) problem.parallel.Add(i, j);
    }
  }
  return problem;
}

uint64_t Bound(const Problem& problem) {
  TimeLimit none(absl::InfiniteDuration(), nullptr);
  return LowerBound(problem, none);
}

// The smallest plan, by placing the buffers in every order, each as low as the ones before let it
// lie: in the order of its offsets, any smallest plan pushed down is one of these.
uint64_t SmallestByAllOrders(const Problem& problem) {
  std::vector<int> order(problem.buffers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  uint64_t smallest = std::numeric_limits<uint64_t>::max();
  do {
    std::vector<std::optional<uint64_t>> offsets(order.size());
    uint64_t bytes = 0;
    for (int i : order) {
      const Buffer& buffer = problem.buffers[i];
      uint64_t offset = 0;
      for (int other : order) {
        if (!offsets[other].has_value() || buffer.size == 0 || !Conflict(problem, i, other)) continue;
        offset = std::max(offset, *offsets[other] + problem.buffers[other].size);
      }
      offset = (offset + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
      offsets[i] = offset;
      if (buffer.size > 0) bytes = std::max(bytes, offset + buffer.size);
    }
    smallest = std::min(smallest, bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return smallest;
}

TEST(Planner, FindsTheSmallestPlanOfSmallProblems) {
  std::mt19937 random(PrintedSeed());
  int searched = 0;
  for (int round = 0; round < Repetitions(4000); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const bool parallel = round % 2 == 1;
    const Problem problem = RandomProblem(&random, 1 + round % 7, 6, parallel);
    const auto plan = PlanMemory(problem, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(Validate(problem, plan->offsets).ok()) << Validate(problem, plan->offsets);
    ASSERT_EQ(plan->bytes, SmallestByAllOrders(problem));
    ASSERT_TRUE(plan->proven);
    ASSERT_LE(Bound(problem), plan->bytes);
    ASSERT_LE(LiveLowerBound(problem), Bound(problem));
    searched += plan->method == "search" ? 1 : 0;
  }
  EXPECT_GT(searched, 0);
}

TEST(Planner, PlansAreValidAndNoLargerThanGreedyOnes) {
  std::mt19937 random(PrintedSeed());
  for (int round = 0; round < Repetitions(300); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const Problem problem = RandomProblem(&random, 60, 30, round % 2 == 1);
    const auto plan = PlanMemory(problem, {.step_limit = 2000});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(Validate(problem, plan->offsets).ok()) << Validate(problem, plan->offsets);
    ASSERT_LE(plan->bytes, GreedyBySize(problem).bytes);
    ASSERT_GE(plan->bytes, plan->lower_bound);
    ASSERT_FALSE(plan->timed_out);
  }
}

TEST(Planner, PlansEqualProblemsEqually) {
  std::mt19937 random(7);
  const Problem problem = RandomProblem(&random, 80, 30, false);
  const auto once = PlanMemory(problem, {.step_limit = 5000});
  const auto again = PlanMemory(problem, {.step_limit = 5000});
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(once->offsets, again->offsets);
  EXPECT_EQ(once->steps, again->steps);
}

TEST(Planner, PlansNothingInNothing) {
  const auto plan = PlanMemory(Problem(), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->bytes, 0);
  EXPECT_TRUE(plan->proven);
}

TEST(Planner, SaysWhichCapacityWouldDo) {
  Problem problem;
  problem.buffers.push_back({.id = "a", .lower = 0, .upper = 2, .size = 60});
  problem.buffers.push_back({.id = "b", .lower = 1, .upper = 3, .size = 50});
  problem.capacity = 110;
  EXPECT_TRUE(PlanMemory(problem, {}).ok());
  problem.capacity = 109;
  const absl::Status status = PlanMemory(problem, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 110 are needed"));
}

TEST(Planner, EndsWithItsStepsOrItsTime) {
  std::mt19937 random(11);
  Problem problem = RandomProblem(&random, 300, 40, false);
  for (Buffer& buffer : problem.buffers) buffer.size = buffer.size * 1021 + 7;
  const auto few = PlanMemory(problem, {.step_limit = 100});
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_LE(few->steps, 101);
  EXPECT_GT(few->bytes, few->lower_bound) << "not hard";
  EXPECT_FALSE(few->proven) << "nothing says that there is no smaller plan";
  const auto none = PlanMemory(problem, {.time_limit = absl::ZeroDuration()});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->timed_out);
  EXPECT_TRUE(Validate(problem, none->offsets).ok());
}

// The default must not keep a compiler waiting for a few per cent.
TEST(Planner, LooksForTheSmallestPlanOfAHardProblemInABoundedNumberOfSteps) {
  std::mt19937 random(11);
  Problem problem = RandomProblem(&random, 300, 40, false);
  for (Buffer& buffer : problem.buffers) buffer.size = buffer.size * 1021 + 7;
  const auto plan = PlanMemory(problem, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->steps, 0) << "not hard";
  EXPECT_LE(plan->steps, kStepsToMinimise + 1);
  EXPECT_FALSE(plan->timed_out);
}

TEST(Planner, RefusesAProblemThatMakesNoSense) {
  Problem problem;
  problem.buffers.push_back({.id = "a", .lower = 2, .upper = 2, .size = 60});
  EXPECT_EQ(PlanMemory(problem, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerBound, CountsWhatParallelBuffersTakeTogether) {
  // Two chains of two, side by side: one of each chain can be alive, whatever the serial order
  // says.
  Problem problem;
  problem.buffers.push_back({.id = "a1", .lower = 0, .upper = 1, .size = 10});
  problem.buffers.push_back({.id = "a2", .lower = 1, .upper = 2, .size = 20});
  problem.buffers.push_back({.id = "b1", .lower = 2, .upper = 3, .size = 40});
  problem.buffers.push_back({.id = "b2", .lower = 3, .upper = 4, .size = 30});
  EXPECT_EQ(Bound(problem), 40);
  problem.parallel = ParallelPairs(4);
  for (int a : {0, 1}) {
    for (int b : {2, 3}) problem.parallel.Add(a, b);
  }
  EXPECT_EQ(Bound(problem), 60);
  EXPECT_EQ(PlanMemory(problem, {})->bytes, 60);
}

class HardProblem : public ::testing::TestWithParam<const char*> {};

TEST_P(HardProblem, FitsIntoOneMebibyte) {
  const std::string path =
      absl::StrCat(NPUBANK_SOURCE_DIR, "/../shared/planner_cases/", GetParam(), ".1048576.csv");
  std::ifstream file(path);
  if (!file) GTEST_SKIP() << "no " << path;
  auto csv = ParseCsv(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(csv.ok()) << csv.status();
  csv->problem.capacity = 1048576;
  const auto plan = PlanMemory(csv->problem, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(Validate(csv->problem, plan->offsets).ok());
  EXPECT_LE(plan->bytes, 1048576);
}

INSTANTIATE_TEST_SUITE_P(MiniMalloc, HardProblem, ::testing::Values("A", "B", "C", "D", "E", "F"));

}  // namespace
}  // namespace npubank

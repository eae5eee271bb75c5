// Problems of the size that the planner says it takes, and planning that must end early. Nothing here
// looks at a clock: ending is seen by how often the planner asks whether it is cancelled, which it
// does once for each piece of work.
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/compiler_stub/planner/files/csv.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/compiler_stub/planner/search/heuristics.h"
#include "npubank/compiler_stub/planner/search/sweep.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

Problem RandomLives(int buffers, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Problem problem;
  for (int i = 0; i < buffers; ++i) {
    const int64_t lower = pick(0, buffers);
    problem.buffers.push_back({.id = {},
                               .lower = lower,
                               .upper = pick(lower + 1, buffers + 1),
                               .size = 64 * static_cast<uint64_t>(pick(1, 1000)),
                               .alignment = uint64_t{1} << pick(0, 6)});
  }
  return problem;
}

// `chains` chains of `length` operations each, side by side.
PlanGraph Chains(int chains, int length) {
  PlanGraph graph;
  const int in = graph.AddValue("in", 64, /*external=*/true);
  for (int c = 0; c < chains; ++c) {
    int last = in;
    for (int i = 0; i < length; ++i) {
      const int made = graph.AddValue("v", 64 * (1 + (c + i) % 5));
      graph.ops.push_back({.name = "op", .kind = "f", .inputs = {last}, .outputs = {made}});
      last = made;
    }
  }
  return graph;
}

void ExpectRight(const Problem& problem, const Plan& plan) {
  EXPECT_TRUE(Validate(problem, plan.offsets).ok()) << Validate(problem, plan.offsets);
  EXPECT_GE(plan.bytes, plan.lower_bound);
  EXPECT_EQ(plan.proven, plan.bytes == plan.lower_bound);
}

TEST(Limits, TenThousandRandomLivesArePlanned) {
  const Problem problem = RandomLives(10'000, 5);
  const auto plan = PlanMemory(problem, {.time_limit = absl::InfiniteDuration()});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectRight(problem, *plan);
  EXPECT_FALSE(plan->timed_out);
  EXPECT_LT(plan->bytes, GreedyBySize(problem).bytes + 1);
}

// 2.4 MB of CSV, all alive together: five billion pairs.
TEST(Limits, AHundredThousandLongLivesArePlanned) {
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < 100'000; ++i) {
    absl::StrAppend(&text, "buffer", i, ",", i % 100, ",", 1000 + i % 777, ",", 64 + i % 4096,
                    "\n");
  }
  const auto csv = ParseCsv(text);
  ASSERT_TRUE(csv.ok()) << csv.status();
  const auto plan = PlanMemory(csv->problem, {.time_limit = absl::InfiniteDuration()});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectRight(csv->problem, *plan);
  EXPECT_TRUE(plan->proven);
  EXPECT_EQ(plan->bytes, SumOfSizes(csv->problem));
}

TEST(Limits, AHundredThousandRandomLivesArePlanned) {
  const Problem problem = RandomLives(100'000, 6);
  const auto plan = PlanMemory(problem, {.time_limit = absl::InfiniteDuration()});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectRight(problem, *plan);
  EXPECT_LE(plan->bytes, 2 * plan->lower_bound);
}

TEST(Limits, AHundredThousandLivesApartArePlanned) {
  Problem problem;
  for (int64_t i = 0; i < 100'000; ++i) {
    problem.buffers.push_back({.id = {}, .lower = i, .upper = i + 1, .size = static_cast<uint64_t>(i)});
  }
  const auto plan = PlanMemory(problem, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->bytes, 99'999);
}

struct Shape {
  int chains;
  int length;
};

class ParallelGraph : public ::testing::TestWithParam<Shape> {};

// As large as a refusal says that a graph may be, or nearly.
TEST_P(ParallelGraph, OfManyOperationsIsPlanned) {
  const auto plan =
      PlanGraphMemory(Chains(GetParam().chains, GetParam().length),
                      {.schedule = Schedule::kParallel}, {.time_limit = absl::InfiniteDuration()});
  ASSERT_TRUE(plan.ok()) << plan.status();  // it has been validated
  EXPECT_FALSE(plan->plan.timed_out);
  EXPECT_LE(plan->plan.bytes, 2 * plan->plan.lower_bound);
}

INSTANTIATE_TEST_SUITE_P(Limits, ParallelGraph,
                         ::testing::Values(Shape{15'001, 1}, Shape{3, 5'000}),
                         [](const auto& shape) {
                           return absl::StrCat(shape.param.chains, "x", shape.param.length);
                         });

TEST(Limits, ALongChainInPlaceIsPlanned) {
  PlanGraph graph = Chains(1, 200'000);
  for (PlanValue& value : graph.values) value.bytes = 64;
  for (PlanOp& op : graph.ops) op.in_place = {0};
  const auto plan = PlanGraphMemory(graph, {}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.bytes, 64);
}

TEST(Limits, AGraphTooLargeForAParallelScheduleIsToldHowLargeOneMayBe) {
  const auto plan =
      PlanGraphMemory(Chains(1, (1 << 14) + 1), {.schedule = Schedule::kParallel}, {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("at most 16384 operations"));
}

// Problems whose planning goes through every stage: heuristics, flow or clique, search.
std::vector<Problem> AllStages() {
  std::vector<Problem> problems = {RandomLives(300, 7), RandomLives(2'000, 8)};
  for (int chains : {20, 50}) {
    PlanGraph graph = Chains(chains, 50);
    problems.push_back(FindLifetimes(graph, {.schedule = Schedule::kParallel})->problem);
  }
  return problems;
}

TEST(TimeLimit, WithoutTimeEveryStageEndsAtItsFirstLook) {
  for (const Problem& problem : AllStages()) {
    int asked = 0;
    const auto plan = PlanMemory(problem, {.time_limit = absl::ZeroDuration(), .cancelled = [&] {
                                             ++asked;
                                             return false;
                                           }});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectRight(problem, *plan);
    EXPECT_TRUE(plan->timed_out);
    EXPECT_EQ(plan->steps, 0);
    EXPECT_EQ(asked, 1) << "what is over stays over";
  }
}

TEST(TimeLimit, WithoutTimeAGraphIsPlannedStill) {
  for (Schedule schedule : {Schedule::kSerial, Schedule::kParallel}) {
    PlanGraph graph = Chains(20, 20);
    for (PlanValue& value : graph.values) value.bytes = 64;
    for (PlanOp& op : graph.ops) op.in_place = {0};
    const auto plan =
        PlanGraphMemory(graph, {.schedule = schedule}, {.time_limit = absl::ZeroDuration()});
    ASSERT_TRUE(plan.ok()) << plan.status();  // it has been validated
    EXPECT_TRUE(plan->plan.timed_out);
    EXPECT_FALSE(plan->plan.proven) << "all values could share one place";
  }
}

// Whenever it is cancelled: asked again and again, it ends at once, whatever it is doing.
TEST(TimeLimit, PlanningIsCancelledAtEveryLook) {
  for (const Problem& problem : AllStages()) {
    const auto cancel_at = [&](int look) {
      int asked = 0;
      const auto plan =
          PlanMemory(problem, {.step_limit = 1'000, .cancelled = [&] { return ++asked > look; }});
      if (plan.ok()) return asked;
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kCancelled);
      EXPECT_EQ(asked, look + 1);
      return -1;
    };
    const int looks = cancel_at(1 << 30);
    ASSERT_GT(looks, 2) << "too little to do";
    for (int look = 0; look < looks; look += 1 + looks / 4) EXPECT_EQ(cancel_at(look), -1);
  }
}

// Placing alone, without a search: about a look for each half million pairs of buffers.
TEST(TimeLimit, TheHeuristicsLookThroughout) {
  int asked = 0;
  const auto plan = PlanMemory(RandomLives(3'000, 9), {.step_limit = 0, .cancelled = [&] {
                                                         ++asked;
                                                         return false;
                                                       }});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(asked, 30);
}

TEST(TimeLimit, AGraphsLifetimesAreCancelledToo) {
  int asked = 0;
  const PlanGraph graph = Chains(1, 16'000);
  const auto cancel_first = [&] {
    ++asked;
    return true;
  };
  EXPECT_EQ(PlanGraphMemory(graph, {.schedule = Schedule::kParallel}, {.cancelled = cancel_first})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 1);
}

// What a refusal says can be planned, can be.
TEST(Limits, ARefusalNamesASizeThatThePlannerReaches) {
  const auto seed = static_cast<unsigned>(PrintedSeed());
  for (int round = 0; round < Repetitions(200); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    Problem problem = RandomLives(60 + round % 20, seed + round);
    problem.capacity = LiveLowerBound(problem) - 1;
    const absl::Status refused = PlanMemory(problem, {.step_limit = 50}).status();
    ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    int64_t least = 0;
    int64_t reached = 0;
    ASSERT_EQ(std::sscanf(std::string(refused.message()).c_str(),
                          "%*d bytes are not enough: at least %ld are needed, and %ld can be",
                          &least, &reached),
              2)
        << refused;
    EXPECT_GT(least, *problem.capacity);
    problem.capacity = reached;
    const auto plan = PlanMemory(problem, {.step_limit = 50});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(Validate(problem, plan->offsets).ok());
  }
}

TEST(Sweep, PlacesAsTheHeuristicOfItsOrderDoes) {
  const auto seed = static_cast<unsigned>(PrintedSeed());
  TimeLimit none(absl::InfiniteDuration(), nullptr);
  for (int round = 0; round < Repetitions(1000); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const Problem problem = RandomLives(1 + round % 100 * 3, seed + round);
    const auto slow = PlaceInOrder(problem, OrderOfBirth(problem), Fit::kBest, none);
    const Layout quick = SweepByBirth(problem);
    ASSERT_EQ(quick.offsets, slow->offsets);
    ASSERT_EQ(quick.bytes, slow->bytes);
  }
}

}  // namespace
}  // namespace npubank

#include "npubank/compiler_stub/planner/files/svg.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/compiler_stub/planner/planner.h"

namespace npubank {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Problem Three() {
  Problem problem;
  problem.buffers.push_back(
      {.id = "a", .lower = 0, .upper = 2, .size = 1 << 20, .kind = "conv", .values = {"a", "a2"}});
  problem.buffers.push_back({.id = "b", .lower = 1, .upper = 3, .size = 1 << 20, .kind = "conv"});
  problem.buffers.push_back(
      {.id = "<&'\">\x01", .lower = 2, .upper = 4, .size = 64, .kind = "add"});
  return problem;
}

TEST(Svg, DrawsARectanglePerBufferAndTheBound) {
  const Problem problem = Three();
  const std::string svg = DrawPlan(problem, *PlanMemory(problem, {}), "test");
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(svg, "operations [")).size(), 4u);
  EXPECT_THAT(svg, AllOf(HasSubstr("lower bound 2.00 MiB"), HasSubstr("a, a2"), HasSubstr(">conv<"),
                         HasSubstr(">lower bound<"), HasSubstr(">add<"), HasSubstr("</svg>")));
}

TEST(Svg, NamesRectanglesThatHaveTheRoom) {
  Problem problem = Three();
  problem.buffers[0].values = {"layers.scores"};
  problem.buffers[2].values = {"layers.norm"};  // too low
  const std::string svg = DrawPlan(problem, *PlanMemory(problem, {}), "test");
  EXPECT_THAT(svg, AllOf(HasSubstr(">layers.scores<"), Not(HasSubstr(">layers.norm<"))));
}

TEST(Svg, EscapesNames) {
  const Problem problem = Three();
  const std::string svg = DrawPlan(problem, *PlanMemory(problem, {}), "<title>");
  EXPECT_THAT(svg, AllOf(HasSubstr("&lt;&amp;&apos;&quot;&gt;?"), HasSubstr("&lt;title&gt;"),
                         Not(HasSubstr("\x01"))));
}

TEST(Svg, DrawsAnEmptyPlan) {
  EXPECT_THAT(DrawPlan(Problem(), *PlanMemory(Problem(), {}), "empty"), HasSubstr("</svg>"));
}

TEST(DescribePlan, SaysSumBoundPlanAndRatio) {
  const Problem problem = Three();
  EXPECT_THAT(DescribePlan(problem, *PlanMemory(problem, {})),
              AllOf(HasSubstr("sum          2097216"), HasSubstr("lower bound  2097152"),
                    HasSubstr("plan         2097152"), HasSubstr("ratio        1.0000"),
                    HasSubstr("nothing smaller exists")));
}

}  // namespace
}  // namespace npubank

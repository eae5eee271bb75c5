#include "npubank/compiler_stub/planner/chains.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;

// split -> a -> join, split -> b1 -> b2 -> join
PlanGraph Diamond() {
  PlanGraph graph;
  for (const char* name : {"in", "split", "a", "b1", "b2", "join"}) graph.AddValue(name, 64);
  graph.ops.push_back({.name = "split", .kind = "f", .inputs = {0}, .outputs = {1}});
  graph.ops.push_back({.name = "a", .kind = "f", .inputs = {1}, .outputs = {2}});
  graph.ops.push_back({.name = "b1", .kind = "f", .inputs = {1}, .outputs = {3}});
  graph.ops.push_back({.name = "b2", .kind = "f", .inputs = {3}, .outputs = {4}});
  graph.ops.push_back({.name = "join", .kind = "f", .inputs = {2, 4}, .outputs = {5}});
  return graph;
}

TEST(Chains, GiveTheLongestPathOneColour) {
  const auto chains = FindChains(Diamond());
  ASSERT_TRUE(chains.ok()) << chains.status();
  EXPECT_THAT(chains->chain_of, ElementsAre(0, 1, 0, 0, 0));
  EXPECT_EQ(chains->count, 2);
  EXPECT_EQ(chains->serial_cost, 5);
  EXPECT_EQ(chains->critical_path, 4);
}

TEST(Chains, WeighOperationsByTheirCost) {
  PlanGraph graph = Diamond();
  graph.ops[1].cost = 10;
  const auto chains = FindChains(graph);
  ASSERT_TRUE(chains.ok()) << chains.status();
  EXPECT_THAT(chains->chain_of, ElementsAre(0, 0, 1, 1, 0));
  EXPECT_EQ(chains->critical_path, 12);
}

TEST(Chains, OfNothingAreNone) {
  const auto chains = FindChains(PlanGraph());
  ASSERT_TRUE(chains.ok()) << chains.status();
  EXPECT_EQ(chains->count, 0);
}

TEST(Chains, RefuseWhatCheckGraphRefuses) {
  PlanGraph graph = Diamond();
  std::swap(graph.ops[0], graph.ops[4]);
  EXPECT_EQ(FindChains(graph).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace npubank

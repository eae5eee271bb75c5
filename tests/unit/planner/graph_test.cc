#include "npubank/compiler_stub/planner/graph.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/compiler_stub/planner/files/example_graphs.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

// x -> first -> y -> second -> z
PlanGraph Chain() {
  PlanGraph graph;
  const int x = graph.AddValue("x", 64);
  const int y = graph.AddValue("y", 64);
  const int z = graph.AddValue("z", 64);
  graph.ops.push_back({.name = "first", .kind = "f", .inputs = {x}, .outputs = {y}});
  graph.ops.push_back({.name = "second", .kind = "f", .inputs = {y}, .outputs = {z}});
  return graph;
}

void ExpectRefused(const PlanGraph& graph, const std::string& why) {
  for (Schedule schedule : {Schedule::kSerial, Schedule::kParallel}) {
    const absl::Status status = PlanGraphMemory(graph, {.schedule = schedule}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST(PlanGraph, SpellsACycle) {
  PlanGraph graph = Chain();
  graph.ops[0].inputs = {2};
  ExpectRefused(graph, "the graph is cyclic: 'first' -> 'second' -> 'first'");
  graph = Chain();
  graph.ops[1].inputs.push_back(2);
  ExpectRefused(graph, "the graph is cyclic: 'second' -> 'second'");
}

TEST(PlanGraph, NamesAValueReadBeforeItIsMade) {
  PlanGraph graph = Chain();
  std::swap(graph.ops[0], graph.ops[1]);
  ExpectRefused(graph, "'second' reads 'y' before operation 'first' makes it");
}

TEST(PlanGraph, NamesAValueMadeTwice) {
  PlanGraph graph = Chain();
  graph.ops[1].outputs = {1};
  ExpectRefused(graph, "'second' makes 'y', which operation 'first' has made");
}

TEST(PlanGraph, RefusesSizesThatDoNotFit) {
  PlanGraph graph = Chain();
  graph.values[1].bytes = std::numeric_limits<int64_t>::max();
  ExpectRefused(graph, "with value 'y'");
  graph.values[1].bytes = std::numeric_limits<int64_t>::max() / 2;
  graph.values[2].bytes = std::numeric_limits<int64_t>::max() / 2;
  ExpectRefused(graph, "with value 'z'");
  graph.values[1].bytes = std::numeric_limits<uint64_t>::max();
  ExpectRefused(graph, "with value 'y'");
}

TEST(PlanGraph, RefusesNumbersThatNameNothing) {
  PlanGraph graph = Chain();
  graph.ops[0].inputs = {3};
  ExpectRefused(graph, "'first' names value 3 of 3");
  graph.ops[0].inputs = {-1};
  ExpectRefused(graph, "'first' names value -1");
  graph = Chain();
  graph.ops[1].in_place = {1};
  ExpectRefused(graph, "'second' cannot write over input 1");
  graph = Chain();
  graph.alignment = 48;
  ExpectRefused(graph, "alignment 48");
}

TEST(PlanGraph, RefusesViewsAndAddsOfTheWrongShape) {
  PlanGraph graph = Chain();
  graph.ops[0].is_view = true;
  graph.ops[0].view_offset = 1;
  ExpectRefused(graph, "views 64 bytes from 1 of 'x', which has 64");
  graph.ops[0].view_offset = std::numeric_limits<uint64_t>::max();
  ExpectRefused(graph, "views 64 bytes from 18446744073709551615");
  graph = Chain();
  graph.ops[1].is_add = true;
  ExpectRefused(graph, "is an add and needs two inputs");
  graph.values[0].bytes = 32;
  graph.ops[1].inputs = {0, 1};
  ExpectRefused(graph, "adds 'x', which is not as large");
}

TEST(GraphJson, SaysWhatIsWrong) {
  const auto refused = [](absl::string_view text, const std::string& why) {
    const absl::Status status = ParseGraphJson(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  refused("[", "not a JSON object");
  refused("{}", "needs an object 'tensors'");
  refused(R"({"tensors": {"a": {}}, "ops": []})", "tensor 'a' needs a 'size'");
  refused(R"({"tensors": {"a": 1}, "ops": []})", "tensor 'a' needs a 'size'");
  refused(R"({"tensors": {"a": {"size": -1}}, "ops": []})", "tensor 'a' needs a 'size'");
  refused(R"({"align": -64, "tensors": {}, "ops": []})", "'align' is not a number of bytes");
  refused(R"({"align": "64", "tensors": {}, "ops": []})", "'align' is not a number of bytes");
  refused(R"({"tensors": {}, "ops": [1]})", "operation '#0': is not an object");
  refused(R"({"tensors": {}, "ops": [{"name": "n", "kind": "k", "inputs": ["a"]}]})",
          "operation 'n': names 'a', which is no tensor");
  refused(R"({"tensors": {}, "ops": [{"kind": "k", "inputs": [], "outputs": [], "inplace": [0]}]})",
          "'inplace' names no input");
}

}  // namespace
}  // namespace npubank

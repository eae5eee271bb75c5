// Random graphs: what the compiler emits, its own readers take, and running it as planned gives what
// running every operation in memory of its own gives.
#include "npubank/compiler_stub/compile_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/partition/partition.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/unit/compiler/function_maker.h"
#include "npubank/tests/unit/compiler/random_graph.h"
#include "npubank/tests/unit/compiler/reference_run.h"

namespace npubank {
namespace {

using Results = std::map<std::string, std::vector<float>>;

const std::vector<int32_t> kTokens = {5, 9, 0, 3};

CompileOptions Options(Schedule schedule, bool reuse) {
  CompileOptions options;
  options.name = "random";
  options.chunk = kRandomChunk;
  options.context = kRandomContext;
  options.schedule = schedule;
  options.reuse = reuse;
  return options;
}

absl::StatusOr<SubmodelBlob> CompileAndRead(const Graph& graph, const CompileOptions& options) {
  absl::StatusOr<SubmodelBlob> blob = CompileGraph(graph, options);
  if (!blob.ok()) return blob.status();
  blob->vocabulary = 11;
  return ReadSubmodelBlob(WriteSubmodelBlob(*blob));
}

// Bit by bit; what is not a number in both (a cache row not written yet, infinity less infinity) has
// no bits to compare. Returns how many numbers there were.
size_t ExpectSame(const Results& expected, const SubmodelBlob& blob) {
  ReferenceRun run(blob);
  run.Run(kTokens, 0);
  size_t numbers = 0;
  for (const auto& [name, values] : expected) {
    const std::vector<float>& got = run.value(name);
    EXPECT_EQ(got.size(), values.size()) << name;
    for (size_t i = 0; i < std::min(got.size(), values.size()); ++i) {
      if (std::isnan(values[i]) && std::isnan(got[i])) continue;
      ++numbers;
      EXPECT_EQ(got[i], values[i]) << name << "[" << i << "]";
    }
    if (::testing::Test::HasFailure()) break;
  }
  return numbers;
}

struct How {
  const char* name;
  Schedule schedule;
  bool reuse;
};

class RandomGraphs : public ::testing::TestWithParam<How> {};

TEST_P(RandomGraphs, AreReadBackAndComeToTheSame) {
  const How& how = GetParam();
  std::mt19937 random(PrintedSeed());
  int over = 0;  // outputs that lie on inputs
  int repeats = 0;
  size_t numbers = 0;
  for (int round = 0; round < Repetitions(2000); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    const Graph graph = RandomGraph(random);
    absl::StatusOr<SubmodelBlob> blob = CompileAndRead(graph, Options(how.schedule, how.reuse));
    ASSERT_TRUE(blob.ok()) << blob.status();
    const Results expected = RunApart(graph, kTokens);
    numbers += ExpectSame(expected, *blob);
    repeats += blob->calls.size() > blob->functions.size() ? 1 : 0;
    for (SubmodelFunction& function : blob->functions) {
      for (const FunctionArgument& argument : function.function.arguments)
        over += argument.over >= 0;
      if (how.schedule == Schedule::kParallel) Shuffle(function.function, random);
    }
    ExpectSame(expected, *blob);
    if (HasFailure()) return;
  }
  // Else this would prove little. Far below what comes about on average (28 outputs that lie on inputs in the
  // parallel schedule), so that no seed fails for being unlucky.
  EXPECT_GT(numbers, 20'000u);
  EXPECT_GT(repeats, 20);
  EXPECT_GT(over, how.reuse ? 5 : -1);
}

INSTANTIATE_TEST_SUITE_P(CompileGraph, RandomGraphs,
                         ::testing::Values(How{"Serial", Schedule::kSerial, true},
                                           How{"Parallel", Schedule::kParallel, true},
                                           How{"WithoutReuse", Schedule::kSerial, false}),
                         [](const auto& how) { return how.param.name; });

// Calls: "first" makes what `blocks` equal blocks hand on to each other, each a call of one
// function; then whatever the test adds, in a call of its own.
class Blocks {
 public:
  explicit Blocks(int blocks) {
    const uint32_t x = graph.AddInput("x", F32({kRandomChunk, 8}));
    graph.AddInput("tokens", I32({kRandomChunk}));
    graph.AddInput("span", I32({2}));
    carry = {Op(OpKind::kAdd, x, x)};
    for (int i = 0; i < blocks; ++i) Block();
  }

  uint32_t Op(OpKind kind, uint32_t a, uint32_t b) {
    return graph.AddOp(kind, absl::StrCat("op", graph.ops().size()), {a, b}, graph.value(a).type);
  }

  SubmodelBlob Compiled(Schedule schedule = Schedule::kSerial) const {
    const absl::StatusOr<SubmodelBlob> blob = CompileAndRead(graph, Options(schedule, true));
    EXPECT_TRUE(blob.ok()) << blob.status();
    if (!blob.ok()) return {};
    ExpectSame(RunApart(graph, kTokens), *blob);
    return *blob;
  }

  // Operations that are no repetition themselves: one value waits aside, in scratch, for the last.
  void Block() {
    const uint32_t aside = Op(OpKind::kSiluMul, carry.back(), carry.back());
    uint32_t last = Op(OpKind::kAdd, aside, carry.back());
    uint32_t before = carry.back();
    for (OpKind kind : {OpKind::kAdd, OpKind::kSiluMul, OpKind::kSiluMul, OpKind::kAdd,
                        OpKind::kSiluMul, OpKind::kAdd, OpKind::kAdd}) {
      const uint32_t made = Op(kind, before, last);
      before = last;
      last = made;
    }
    inside.push_back(before);
    carry.push_back(Op(OpKind::kAdd, last, aside));
  }

  Graph graph;
  std::vector<uint32_t> carry;   // what the blocks began with, then what each hands on
  std::vector<uint32_t> inside;  // a value in the middle of each
};

// The number of outputs that lie on inputs.
int Over(const SubmodelBlob& blob) {
  int over = 0;
  for (const SubmodelFunction& function : blob.functions) {
    for (const FunctionArgument& argument : function.function.arguments) over += argument.over >= 0;
  }
  return over;
}

TEST(CompileGraph, ABlockWorksOnItsInputWhereItIs) {
  Blocks blocks(2);
  blocks.graph.AddOutput(blocks.Op(OpKind::kAdd, blocks.carry[2], blocks.carry[2]));
  EXPECT_EQ(Over(blocks.Compiled()), 1);
}

TEST(CompileGraph, ABlockLeavesAnInputThatALaterCallReads) {
  Blocks blocks(2);
  blocks.graph.AddOutput(blocks.Op(OpKind::kAdd, blocks.carry[2], blocks.carry[1]));
  EXPECT_EQ(Over(blocks.Compiled()), 0);
}

TEST(CompileGraph, AnOutputOfTheSubmodelLiesOnNoInput) {
  Blocks blocks(2);
  blocks.graph.AddOutput(blocks.carry[2]);
  EXPECT_EQ(Over(blocks.Compiled()), 0);
}

// The last reader in order is not the last in time where nothing makes it wait.
TEST(CompileGraph, AParallelPlanLeavesAnInputThatAnotherCallMayStillRead) {
  Blocks blocks(2);
  const uint32_t shared = blocks.carry[0];
  const uint32_t beside = blocks.Op(OpKind::kSiluMul, shared, shared);
  blocks.carry = {beside};
  blocks.Block();
  blocks.Block();
  blocks.graph.AddOutput(blocks.carry[2]);
  EXPECT_EQ(Over(blocks.Compiled(Schedule::kSerial)), 1) << "'beside' lies on what it reads last";
  EXPECT_EQ(Over(blocks.Compiled(Schedule::kParallel)), 0);
}

TEST(CompileGraph, ScratchIsKeptFromCallToCall) {
  Blocks blocks(3);
  blocks.graph.AddOutput(blocks.Op(OpKind::kAdd, blocks.carry[3], blocks.inside[1]));
  const SubmodelBlob blob = blocks.Compiled();
  ASSERT_GT(blob.scratch_bytes, 0u);
  for (const SubmodelValue& value : blob.values) {
    if (value.placement != Placement::kArena) continue;
    const uint64_t end = value.offset + value.type.bytes();
    EXPECT_TRUE(end <= blob.scratch_offset ||
                value.offset >= blob.scratch_offset + blob.scratch_bytes)
        << value.name << " lies on scratch";
  }
}

}  // namespace
}  // namespace npubank

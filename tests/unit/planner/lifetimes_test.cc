#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/compiler_stub/planner/files/example_graphs.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Graphs of values of 64 bytes, by a word for each operation.
class Little {
 public:
  int In(const std::string& name, bool external = false) {
    return graph.AddValue(name, 64, external);
  }
  int Elementwise(const std::string& name, std::vector<int> inputs) {
    PlanOp op = {.name = name, .kind = "elementwise", .inputs = inputs};
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) op.in_place.push_back(i);
    return Make(std::move(op));
  }
  int Product(const std::string& name, std::vector<int> inputs) {
    return Make({.name = name, .kind = "product", .inputs = inputs, .can_accumulate = true});
  }
  int Add(const std::string& name, int a, int b) {
    return Make(
        {.name = name, .kind = "add", .inputs = {a, b}, .in_place = {0, 1}, .is_add = true});
  }
  int View(const std::string& name, int of) {
    return Make({.name = name, .kind = "view", .inputs = {of}, .is_view = true});
  }
  Lifetimes Find(LifetimeOptions options = {}) const {
    const auto lifetimes = FindLifetimes(graph, options);
    EXPECT_TRUE(lifetimes.ok()) << lifetimes.status();
    return *lifetimes;
  }

  PlanGraph graph;

 private:
  int Make(PlanOp op) {
    op.outputs = {graph.AddValue(op.name, 64)};
    graph.ops.push_back(std::move(op));
    return graph.ops.back().outputs[0];
  }
};

TEST(Lifetimes, LastFromMakerToLastReader) {
  Little g;
  const int x = g.In("x");
  const int y = g.Product("y", {x});
  g.Product("z", {x, y});
  const Lifetimes l = g.Find();
  ASSERT_EQ(l.problem.buffers.size(), 3u);
  EXPECT_EQ(l.problem.buffers[l.buffer_of[x]].lower, 0);
  EXPECT_EQ(l.problem.buffers[l.buffer_of[x]].upper, 2);
  EXPECT_EQ(l.problem.buffers[l.buffer_of[y]].lower, 0);
  EXPECT_EQ(l.problem.buffers[l.buffer_of[y]].upper, 2);
  EXPECT_EQ(l.problem.buffers[2].lower, 1);
  EXPECT_EQ(l.problem.buffers[2].upper, 2);
  EXPECT_EQ(l.sum_of_values, 3 * 64);
}

TEST(Lifetimes, OfResultsLastToTheEnd) {
  Little g;
  const int x = g.In("x");
  const int y = g.Product("y", {x});
  g.Product("z", {x});
  g.graph.values[y].kept = true;
  EXPECT_EQ(g.Find().problem.buffers[1].upper, 2);
}

TEST(Lifetimes, LeaveExternalValuesOut) {
  Little g;
  const int x = g.In("x", /*external=*/true);
  const int view = g.View("view", x);
  const int y = g.Elementwise("y", {view});
  const Lifetimes l = g.Find();
  EXPECT_EQ(l.buffer_of[x], kNoBuffer);
  EXPECT_EQ(l.buffer_of[view], kNoBuffer);
  EXPECT_EQ(l.buffer_of[y], 0);
  EXPECT_THAT(l.in_place, IsEmpty()) << "an external value must not be written over";
}

TEST(Lifetimes, RoundSizesUpToTheAlignment) {
  Little g;
  g.graph.values[g.In("x")].bytes = 65;
  EXPECT_EQ(g.Find().problem.buffers[0].size, 128);
}

TEST(InPlace, WritesOverAnInputThatDies) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int y = g.Elementwise("y", {x});
  const int z = g.Elementwise("z", {y});
  const Lifetimes l = g.Find();
  EXPECT_EQ(l.buffer_of[x], l.buffer_of[y]);
  EXPECT_EQ(l.buffer_of[y], l.buffer_of[z]);
  EXPECT_EQ(l.in_place.size(), 2u);
  EXPECT_THAT(l.problem.buffers[l.buffer_of[x]].values, ElementsAre("x", "y", "z"));
  EXPECT_NE(g.Find({.in_place = false}).buffer_of[x], g.Find({.in_place = false}).buffer_of[y]);
}

TEST(InPlace, LeavesAnInputThatIsReadLater) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int y = g.Elementwise("y", {x});
  g.Product("z", {x});
  const Lifetimes l = g.Find();
  EXPECT_NE(l.buffer_of[x], l.buffer_of[y]);
}

TEST(InPlace, LeavesAnInputWhoseViewIsReadLater) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int view = g.View("view", x);
  const int y = g.Elementwise("y", {x});
  g.Product("z", {view});
  const Lifetimes l = g.Find();
  EXPECT_EQ(l.buffer_of[x], l.buffer_of[view]);
  EXPECT_NE(l.buffer_of[x], l.buffer_of[y]);
}

// An operation that reads the same bytes once more, at another pace, would see them half
// overwritten.
TEST(InPlace, LeavesBytesThatTheOperationReadsThroughAView) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int view = g.View("view", x);
  const int y = g.Elementwise("y", {x, view});
  const Lifetimes l = g.Find();
  EXPECT_NE(l.buffer_of[x], l.buffer_of[y]);
  EXPECT_THAT(l.in_place, IsEmpty());
}

TEST(InPlace, LeavesAnInputThatTheOperationAlsoReadsWhereItMayNotWrite) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int y = g.Elementwise("y", {x, x});
  EXPECT_EQ(g.Find().buffer_of[x], g.Find().buffer_of[y]) << "element by element, both";
  g.graph.ops.back().in_place = {0};
  EXPECT_NE(g.Find().buffer_of[x], g.Find().buffer_of[y]);
}

// It adds to what lies in the addend's place: its own input must not be there.
TEST(InPlace, LeavesAnOperationThatAccumulates) {
  Little g;
  const int addend = g.Product("addend", {g.In("in")});
  const int x = g.Product("x", {g.In("in2")});
  const int y = g.Elementwise("y", {x});
  g.graph.ops.back().can_accumulate = true;
  const int sum = g.Add("sum", addend, y);
  const Lifetimes l = g.Find();
  EXPECT_EQ(l.fused_adds.size(), 1u);
  EXPECT_EQ(l.buffer_of[sum], l.buffer_of[addend]);
  EXPECT_NE(l.buffer_of[x], l.buffer_of[y]);
  EXPECT_THAT(l.in_place, IsEmpty());
}

TEST(InPlace, LeavesAResult) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  g.graph.values[x].kept = true;
  const int y = g.Elementwise("y", {x});
  const Lifetimes l = g.Find();
  EXPECT_NE(l.buffer_of[x], l.buffer_of[y]);
}

TEST(InPlace, LeavesAnInputOfAnotherSize) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int y = g.Elementwise("y", {x});
  g.graph.values[x].bytes = 128;
  const Lifetimes l = g.Find();
  EXPECT_NE(l.buffer_of[x], l.buffer_of[y]);
}

TEST(InPlace, TakesTheSecondInputWhenTheFirstLivesOn) {
  Little g;
  const int in = g.In("in");
  const int x = g.Product("x", {in});
  const int y = g.Product("y", {in});
  const int z = g.Elementwise("z", {x, y});
  g.Product("later", {x});
  const Lifetimes l = g.Find();
  EXPECT_EQ(l.buffer_of[z], l.buffer_of[y]);
}

TEST(InPlace, DoesNotDisturbAReaderThatMayRunAtTheSameTime) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  g.Product("reader", {x});
  const int y = g.Elementwise("y", {x});
  EXPECT_EQ(g.Find().buffer_of[x], g.Find().buffer_of[y]);
  const Lifetimes parallel = g.Find({.schedule = Schedule::kParallel});
  EXPECT_NE(parallel.buffer_of[x], parallel.buffer_of[y]);
}

// x -> norm -> product -> (view ->) add x
struct Residual {
  Little g;
  int x = g.Product("x", {g.In("in")});
  int norm = g.Product("norm", {x});
  int made = g.Product("made", {norm});
  int view = g.View("view", made);
  int sum = g.Add("sum", x, view);
};

TEST(FusedAdd, AccumulatesThroughAView) {
  Residual r;
  const Lifetimes l = r.g.Find();
  ASSERT_EQ(l.fused_adds.size(), 1u);
  EXPECT_EQ(r.g.graph.ops[l.fused_adds[0].add].name, "sum");
  EXPECT_EQ(r.g.graph.ops[l.fused_adds[0].producer].name, "made");
  EXPECT_EQ(l.fused_adds[0].addend, r.x);
  for (int value : {r.made, r.view, r.sum}) EXPECT_EQ(l.buffer_of[value], l.buffer_of[r.x]);
  EXPECT_THAT(r.g.Find({.fused_add = false}).fused_adds, IsEmpty());
}

TEST(FusedAdd, IsOptedOutOfByALaterReaderOfTheAddend) {
  Residual r;
  r.g.Product("later", {r.x});
  EXPECT_THAT(r.g.Find().fused_adds, IsEmpty());
}

TEST(FusedAdd, IsOptedOutOfByAReaderBetweenProducerAndAdd) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int made = g.Product("made", {g.In("other")});
  g.Product("between", {x});
  g.Add("sum", x, made);
  EXPECT_THAT(g.Find().fused_adds, IsEmpty());
}

TEST(FusedAdd, IsOptedOutOfByAnotherReaderOfTheSummand) {
  Residual r;
  r.g.Product("other", {r.made});
  EXPECT_THAT(r.g.Find().fused_adds, IsEmpty());
}

TEST(FusedAdd, IsOptedOutOfWhenTheSummandIsAResult) {
  Residual r;
  r.g.graph.values[r.made].kept = true;
  EXPECT_THAT(r.g.Find().fused_adds, IsEmpty());
}

TEST(FusedAdd, IsOptedOutOfByAProducerThatReadsTheAddend) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int made = g.Product("made", {x});
  g.Add("sum", x, made);
  EXPECT_THAT(g.Find().fused_adds, IsEmpty());
}

TEST(FusedAdd, LeavesExternalMemoryAlone) {
  Residual r;
  r.g.graph.values[r.x].external = true;
  EXPECT_THAT(r.g.Find().fused_adds, IsEmpty());
  Residual s;
  s.g.graph.values[s.sum].external = true;
  EXPECT_THAT(s.g.Find().fused_adds, IsEmpty());
}

// A view may begin between places; nothing that is written does.
TEST(FusedAdd, IsOptedOutOfWhenTheAddendBeginsBetweenPlaces) {
  for (int64_t begin : {32, 64}) {
    Little g;
    const int whole = g.Product("whole", {g.In("in")});
    g.graph.values[whole].bytes = 128;
    const int slice = g.View("slice", whole);
    g.graph.ops.back().view_offset = begin;
    const int sum = g.Add("sum", slice, g.Product("made", {g.In("in2")}));
    const Lifetimes l = g.Find();
    EXPECT_EQ(l.fused_adds.size(), begin == 64 ? 1u : 0u);
    EXPECT_EQ(l.offset_in_buffer[sum] % g.graph.alignment, 0);
  }
}

TEST(FusedAdd, ChainsAccumulateIntoOneBuffer) {
  Little g;
  const int x = g.Product("x", {g.In("in")});
  const int in2 = g.In("in2");
  const int a = g.Product("a", {in2});
  const int sum1 = g.Add("sum1", x, a);
  const int b = g.Product("b", {in2});
  const int c = g.Product("c", {in2});
  const int sum2 = g.Add("sum2", sum1, b);
  const int sum3 = g.Add("sum3", c, sum2);
  const Lifetimes l = g.Find();
  EXPECT_EQ(l.fused_adds.size(), 3u);
  for (int value : {a, sum1, b, sum2, c, sum3}) EXPECT_EQ(l.buffer_of[value], l.buffer_of[x]);
}

TEST(FusedAdd, IsMadeInAParallelScheduleWhereEveryReaderIsAnAncestor) {
  Residual r;
  EXPECT_EQ(r.g.Find({.schedule = Schedule::kParallel}).fused_adds.size(), 1u);
}

TEST(FusedAdd, DoesNotMakeParallelBranchesWaitForEachOther) {
  Little g;
  const int in = g.In("in", /*external=*/true);
  const int a = g.Product("a", {in});
  const int b = g.Product("b", {in});
  g.Add("sum", a, b);
  EXPECT_EQ(g.Find().fused_adds.size(), 1u);
  EXPECT_THAT(g.Find({.schedule = Schedule::kParallel}).fused_adds, IsEmpty());
}

TEST(ParallelSchedule, SharesOnlyAlongPaths) {
  Little g;
  const int in = g.In("in", /*external=*/true);
  for (const char* branch : {"a", "b"}) {
    int v = in;
    for (int i = 0; i < 4; ++i) v = g.Product(absl::StrCat(branch, i), {v});
  }
  const auto serial = PlanGraphMemory(g.graph, {}, {});
  const auto parallel = PlanGraphMemory(g.graph, {.schedule = Schedule::kParallel}, {});
  ASSERT_TRUE(serial.ok() && parallel.ok());
  EXPECT_EQ(serial->plan.bytes, 2 * 64);    // one step's input and output
  EXPECT_EQ(parallel->plan.bytes, 4 * 64);  // of each branch
  EXPECT_EQ(parallel->plan.lower_bound, 4 * 64);
}

constexpr int64_t kMiB = 1 << 20;

TEST(Networks, VaeDecoderNeedsNoMoreThan320MiB) {
  const std::string path =
      NPUBANK_SOURCE_DIR "/../shared/planner_cases/sd15_vae_decoder_512.graph.json";
  std::ifstream file(path);
  if (!file) GTEST_SKIP() << "no " << path;
  const auto graph = ParseGraphJson(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto plan = PlanGraphMemory(*graph, {}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->plan.bytes, 320 * kMiB);
  const auto sharing = PlanGraphMemory(*graph, {.in_place = false, .fused_add = false}, {});
  EXPECT_EQ(sharing->plan.bytes, 384 * kMiB);
}

TEST(Networks, LlamaPrefillReachesItsBound) {
  struct Case {
    bool per_head;
    int64_t sharing;
    int64_t both;
  };
  for (const Case& c : {Case{false, 133, 74}, Case{true, 52, 40}}) {
    const PlanGraph graph = LlamaGraph(kLlama1B, 1024, 1024, c.per_head);
    const auto sharing = PlanGraphMemory(graph, {.in_place = false, .fused_add = false}, {});
    const auto both = PlanGraphMemory(graph, {}, {});
    ASSERT_TRUE(sharing.ok() && both.ok());
    EXPECT_EQ(sharing->plan.bytes, c.sharing * kMiB);
    EXPECT_EQ(both->plan.bytes, c.both * kMiB);
    EXPECT_TRUE(both->plan.proven);
  }
}

TEST(Networks, SevenBillionPlansInUnderASecond) {
  for (bool per_head : {false, true}) {
    const PlanGraph graph = LlamaGraph(kLlama7B, 1024, 1024, per_head);
    const absl::Time start = absl::Now();
    const auto plan = PlanGraphMemory(graph, {}, {});
    EXPECT_LT(absl::Now() - start, absl::Seconds(1));
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->plan.bytes, plan->plan.lower_bound);
  }
}

TEST(Networks, UNetComesWithinTwoPercentOfItsBound) {
  const auto plan = PlanGraphMemory(UNetGraph(), {}, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_LE(static_cast<double>(plan->plan.bytes),
            1.02 * static_cast<double>(plan->plan.lower_bound));
}

}  // namespace
}  // namespace npubank

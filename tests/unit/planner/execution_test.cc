// Plans are executed: random graphs with real bytes, in an arena laid out by the plan, against a
// run in which every value has memory of its own.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

using Bytes = std::vector<uint8_t>;

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int To(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
  bool OneIn(int n) { return To(n) == 0; }

 private:
  std::mt19937 random_;
};

PlanGraph RandomGraph(Dice* dice, int ops) {
  PlanGraph graph;
  for (int i = 0; i < 3; ++i) {
    graph.AddValue(absl::StrCat("in", i), 64 * (1 + dice->To(2)), dice->OneIn(3), dice->OneIn(8));
  }
  // Mostly recent values, so that there are chains; sometimes old ones, so that there are skips.
  const auto any = [&] {
    const int count = static_cast<int>(graph.values.size());
    return dice->OneIn(4) ? dice->To(count) : count - 1 - dice->To(std::min(count, 5));
  };
  const auto same_size_as = [&](int value) {
    for (int tries = 0; tries < 20; ++tries) {
      const int other = any();
      if (graph.values[other].bytes == graph.values[value].bytes) return other;
    }
    return value;
  };
  for (int i = 0; i < ops; ++i) {
    PlanOp op;
    op.name = absl::StrCat("op", i);
    const int first = any();
    op.inputs = {first};
    uint64_t bytes = graph.values[first].bytes;
    bool external = dice->OneIn(12);
    switch (dice->To(7)) {
      case 0:
        op.kind = "elementwise";
        op.in_place = {0};
        if (dice->OneIn(2)) {
          op.inputs.push_back(same_size_as(first));
          op.in_place.push_back(1);
        }
        break;
      case 1:
        op.kind = "add";
        op.is_add = true;
        op.inputs.push_back(same_size_as(first));
        op.in_place = {0, 1};
        break;
      case 2:
        op.kind = "view";
        op.is_view = true;
        external = external && graph.values[first].external;
        if (bytes > 64 && dice->OneIn(3)) {
          op.view_offset = 32;
          bytes = 64;
        }
        break;
      case 3:  // over its first input, of which the second may be another part or shape
        op.kind = "gate";
        op.in_place = {0};
        op.inputs.push_back(any());
        break;
      case 4:
        op.kind = "elementwise";
        op.can_accumulate = true;
        op.in_place = {0};
        break;
      default:
        op.kind = "product";
        op.can_accumulate = true;
        bytes = 64 * (1 + dice->To(2));
        if (dice->OneIn(2)) op.inputs.push_back(any());
        break;
    }
    op.outputs = {graph.AddValue(absl::StrCat("v", i), bytes, external, dice->OneIn(10))};
    graph.ops.push_back(std::move(op));
  }
  return graph;
}

uint8_t Sum(uint8_t a, uint8_t b) { return static_cast<uint8_t>(a + b); }

// Byte `i` of what the operation makes. Reads its inputs anew for each byte, as a kernel would: an
// output that wrongly overlaps an input shows.
uint8_t Compute(const PlanOp& op, const std::vector<const uint8_t*>& inputs,
                const std::vector<uint64_t>& sizes, uint64_t i) {
  if (op.is_add) return Sum(inputs[0][i], inputs[1][i]);
  unsigned result = 17 + static_cast<unsigned>(op.name.back());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (op.kind == "elementwise" || (op.kind == "gate" && k == 0)) {
      result = result * 31 + inputs[k][i];
      continue;
    }
    for (uint64_t j = 0; j < sizes[k]; j += 5) result = result * 31 + inputs[k][(i + j) % sizes[k]];
  }
  return static_cast<uint8_t>(result ^ result >> 8);
}

// Runs the graph's operations in `order`, each value where `place` says.
class Run {
 public:
  Run(const PlanGraph& graph, std::vector<uint8_t*> place)
      : graph_(graph), place_(std::move(place)) {
    for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) {
      const bool made = std::any_of(graph.ops.begin(), graph.ops.end(),
                                    [&](const PlanOp& op) { return op.outputs[0] == v; });
      for (uint64_t i = 0; !made && i < graph.values[v].bytes; ++i) {
        place_[v][i] = static_cast<uint8_t>(static_cast<int>(i) * 7 + v);
      }
    }
  }

  void Do(const PlanOp& op, bool accumulate) {
    std::vector<const uint8_t*> inputs;
    std::vector<uint64_t> sizes;
    for (int input : op.inputs) {
      inputs.push_back(place_[input]);
      sizes.push_back(graph_.values[input].bytes);
    }
    uint8_t* const out = place_[op.outputs[0]];
    for (uint64_t i = 0; i < graph_.values[op.outputs[0]].bytes; ++i) {
      const uint8_t made = Compute(op, inputs, sizes, i);
      out[i] = accumulate ? Sum(out[i], made) : made;
    }
  }

  const uint8_t* at(int value) const { return place_[value]; }

 private:
  const PlanGraph& graph_;
  std::vector<uint8_t*> place_;
};

// Every value in memory of its own, operations in the graph's order.
std::vector<Bytes> RunWithoutReuse(const PlanGraph& graph) {
  std::vector<Bytes> memory;
  std::vector<uint8_t*> place;
  for (const PlanValue& value : graph.values) memory.emplace_back(value.bytes);
  for (Bytes& bytes : memory) place.push_back(bytes.data());
  Run run(graph, place);
  for (const PlanOp& op : graph.ops) {
    if (op.is_view) {
      std::memcpy(memory[op.outputs[0]].data(), &memory[op.inputs[0]][op.view_offset],
                  graph.values[op.outputs[0]].bytes);
    } else {
      run.Do(op, false);
    }
  }
  return memory;
}

std::vector<int> RandomTopologicalOrder(const PlanGraph& graph, Dice* dice) {
  std::vector<bool> there(graph.values.size(), true);
  for (const PlanOp& op : graph.ops) there[op.outputs[0]] = false;
  std::vector<int> waiting(graph.ops.size());
  for (size_t i = 0; i < waiting.size(); ++i) waiting[i] = static_cast<int>(i);
  std::vector<int> order;
  while (!waiting.empty()) {
    const int at = dice->To(static_cast<int>(waiting.size()));
    const PlanOp& op = graph.ops[waiting[at]];
    if (!std::all_of(op.inputs.begin(), op.inputs.end(), [&](int v) { return there[v]; })) continue;
    there[op.outputs[0]] = true;
    order.push_back(waiting[at]);
    waiting.erase(waiting.begin() + at);
  }
  return order;
}

// Views may begin anywhere; every other place is aligned.
void ExpectAligned(const PlanGraph& graph, const GraphPlan& plan) {
  for (const PlanOp& op : graph.ops) {
    const std::optional<uint64_t> place = plan.PlaceOf(op.outputs[0]);
    if (op.is_view || !place.has_value()) continue;
    ASSERT_EQ(*place % graph.alignment, 0u) << graph.values[op.outputs[0]].name;
  }
}

// Runs in the planned arena, and compares every value with `expected` when it is made and when it
// is read.
void RunPlanned(const PlanGraph& graph, const GraphPlan& plan, const std::vector<int>& order,
                const std::vector<Bytes>& expected) {
  Bytes arena(plan.plan.bytes, 0xee);
  std::vector<Bytes> outside(graph.values.size());
  std::vector<uint8_t*> place;
  for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) {
    if (const std::optional<uint64_t> offset = plan.PlaceOf(v); offset.has_value()) {
      ASSERT_LE(*offset + graph.values[v].bytes, plan.plan.bytes);
      place.push_back(arena.data() + *offset);
      continue;
    }
    outside[v].resize(graph.values[v].bytes);
    place.push_back(outside[v].data());
  }
  for (const PlanOp& op : graph.ops) {  // a view of external memory is external memory
    if (op.is_view && !plan.PlaceOf(op.outputs[0]).has_value()) {
      place[op.outputs[0]] = place[op.inputs[0]] + op.view_offset;
    }
  }
  Run run(graph, place);
  const auto expect_intact = [&](int value, absl::string_view when) {
    ASSERT_EQ(0, std::memcmp(run.at(value), expected[value].data(), expected[value].size()))
        << graph.values[value].name << " is wrong " << when;
  };
  std::vector<int> sum_of(graph.ops.size(), -1);  // what an accumulating operation completes
  std::vector<bool> vanished(graph.ops.size(), false);
  for (const FusedAdd& fused : plan.lifetimes.fused_adds) {
    sum_of[fused.producer] = graph.ops[fused.add].outputs[0];
    vanished[fused.add] = true;
  }
  for (int i : order) {
    const PlanOp& op = graph.ops[i];
    if (op.is_view || vanished[i]) continue;
    for (int input : op.inputs) expect_intact(input, absl::StrCat("when read by ", op.name));
    run.Do(op, sum_of[i] >= 0);
    expect_intact(sum_of[i] >= 0 ? sum_of[i] : op.outputs[0], "when made");
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) {
    if (graph.values[v].kept) expect_intact(v, "at the end");
  }
}

class Execution : public ::testing::TestWithParam<Schedule> {};

TEST_P(Execution, WithReuseGivesTheBytesOfARunWithout) {
  Dice dice(PrintedSeed());
  size_t fused = 0;
  size_t in_place = 0;
  for (int round = 0; round < Repetitions(10'000); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const PlanGraph graph = RandomGraph(&dice, 5 + dice.To(40));
    const std::vector<Bytes> expected = RunWithoutReuse(graph);
    const LifetimeOptions options = {
        .in_place = !dice.OneIn(5), .fused_add = !dice.OneIn(5), .schedule = GetParam()};
    const auto plan = PlanGraphMemory(graph, options, {.step_limit = 5000});
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_LE(plan->plan.bytes, plan->lifetimes.sum_of_values);
    ExpectAligned(graph, *plan);
    fused += plan->lifetimes.fused_adds.size();
    in_place += plan->lifetimes.in_place.size();
    std::vector<int> order(graph.ops.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    for (int run = 0; run < 4; ++run) {
      RunPlanned(graph, *plan, order, expected);
      if (HasFatalFailure() || GetParam() == Schedule::kSerial) break;
      order = RandomTopologicalOrder(graph, &dice);
    }
    if (HasFatalFailure()) return;
  }
  // Else this would prove little; few fused adds are possible without making branches wait.
  EXPECT_GT(fused, GetParam() == Schedule::kSerial ? 20u : 0u);
  EXPECT_GT(in_place, 50u);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Execution,
                         ::testing::Values(Schedule::kSerial, Schedule::kParallel),
                         [](const auto& schedule) {
                           return schedule.param == Schedule::kSerial ? "Serial" : "Parallel";
                         });

}  // namespace
}  // namespace npubank

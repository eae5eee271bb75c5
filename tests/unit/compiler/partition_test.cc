#include "npubank/compiler_stub/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/frontend/networks.h"
#include "npubank/tests/unit/compiler/function_maker.h"
#include "npubank/tools/benchmarks/fake_model.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;

CompileOptions Options() {
  CompileOptions options;
  options.name = "test";
  options.chunk = 4;
  options.context = 16;
  return options;
}

std::vector<size_t> CallsOf(const Partition& partition) {
  std::vector<size_t> calls;
  for (const PartitionFunction& function : partition.functions) {
    calls.push_back(function.calls.size());
  }
  return calls;
}

// Calls follow each other without a gap and cover every operation.
void ExpectCovers(const Partition& partition, const Graph& graph) {
  size_t next = 0;
  for (const PartitionCall& call : partition.calls) {
    EXPECT_EQ(call.begin, next);
    EXPECT_LT(call.begin, call.end);
    next = call.end;
  }
  EXPECT_EQ(next, graph.ops().size());
}

class LayersAreFound : public ::testing::TestWithParam<int64_t> {};

TEST_P(LayersAreFound, WithACallEach) {
  const int64_t layers = GetParam();
  const ModelConfig config = SmallConfig(layers);
  const FakeModel model(config);
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    CompileOptions options = Options();
    options.attention = attention;
    const absl::StatusOr<Graph> graph = BuildLlama(*model.Over(config), options);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Partition partition = FindPartition(*graph);
    EXPECT_THAT(CallsOf(partition), ElementsAre(1, layers, 1));
    ExpectCovers(partition, *graph);
    // Cut where only the hidden state passes.
    const PartitionCall& layer = partition.calls[1];
    EXPECT_EQ(graph->value(layer.inputs[0]).name, "embed");
    EXPECT_EQ(graph->value(layer.inputs[1]).kind, ValueKind::kInput);
    EXPECT_EQ(layer.outputs.size(), 1u);
    EXPECT_EQ(partition.calls[2].inputs[0], layer.outputs[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Partition, LayersAreFound, ::testing::Values(2, 3, 4, 5, 12, 32, 61));

TEST(Partition, OneLayerIsOneFunction) {
  const ModelConfig config = SmallConfig(1);
  const FakeModel model(config);
  const absl::StatusOr<Graph> graph = BuildLlama(*model.Over(config), Options());
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(CallsOf(FindPartition(*graph)), ElementsAre(1));
}

// Blocks of `length` operations, each SiluMul of the last two values, but for one operation that
// `odd` chooses to be an Add.
class Chain {
 public:
  Chain() {
    last_ = graph_.AddInput("a", F32({2, 4}));
    before_ = graph_.AddInput("b", F32({2, 4}));
  }
  void Op(OpKind kind) {
    const uint32_t next =
        graph_.AddOp(kind, absl::StrCat("op", graph_.ops().size()), {last_, before_}, F32({2, 4}));
    before_ = last_;
    last_ = next;
  }
  // Ten operations of two kinds, as the bits of `pattern` say.
  void Block(unsigned pattern) {
    for (unsigned bit = 0; bit < 10; ++bit) {
      Op((pattern >> bit & 1) != 0 ? OpKind::kAdd : OpKind::kSiluMul);
    }
  }
  Graph& Finish() {
    graph_.AddOutput(last_);
    return graph_;
  }

 private:
  Graph graph_;
  uint32_t last_ = 0;
  uint32_t before_ = 0;
};

TEST(Partition, BlocksNeedNoNamesNorWeights) {
  Chain chain;
  for (int i = 0; i < 4; ++i) chain.Block(0b0010110111);
  const Graph& graph = chain.Finish();
  const Partition partition = FindPartition(graph);
  ExpectCovers(partition, graph);
  EXPECT_THAT(CallsOf(partition), ElementsAre(4));
}

TEST(Partition, TwoStacksGiveTwoRepeats) {
  Chain chain;
  for (int i = 0; i < 3; ++i) chain.Block(0b0010110111);
  for (int i = 0; i < 5; ++i) chain.Block(0b1100011101);
  const Graph& graph = chain.Finish();
  const Partition partition = FindPartition(graph);
  ExpectCovers(partition, graph);
  EXPECT_THAT(CallsOf(partition), ElementsAre(3, 5));
}

TEST(Partition, EqualBlocksApartShareAFunction) {
  Chain chain;
  for (int i = 0; i < 2; ++i) chain.Block(0b0010110111);
  for (int i = 0; i < 4; ++i) chain.Op(OpKind::kAdd);
  for (int i = 0; i < 2; ++i) chain.Block(0b0010110111);
  const Graph& graph = chain.Finish();
  const Partition partition = FindPartition(graph);
  ExpectCovers(partition, graph);
  EXPECT_THAT(CallsOf(partition), ElementsAre(4, 1));
}

TEST(Partition, ShortBlocksAreNotWorthACall) {
  Chain chain;
  for (int i = 0; i < 40; ++i) chain.Op(i % 4 == 0 ? OpKind::kAdd : OpKind::kSiluMul);
  EXPECT_THAT(CallsOf(FindPartition(chain.Finish())), ElementsAre(1));
}

// A layer whose attributes differ is another function; the others still share theirs.
TEST(Partition, AttributesMakeBlocksDiffer) {
  const ModelConfig config = SmallConfig(6);
  const FakeModel model(config);
  const absl::StatusOr<Graph> built = BuildLlama(*model.Over(config), Options());
  ASSERT_TRUE(built.ok());
  Graph graph;
  std::vector<uint32_t> numbers;
  size_t next = 0;
  for (uint32_t v = 0; v < built->values().size(); ++v) {
    const GraphValue& value = built->value(v);
    if (value.kind == ValueKind::kInput) numbers.push_back(graph.AddInput(value.name, value.type));
    if (value.kind == ValueKind::kState) numbers.push_back(graph.AddState(value.name, value.type));
    if (value.kind == ValueKind::kWeight) {
      numbers.push_back(graph.AddWeight(value.name, *value.weight));
    }
    if (value.kind != ValueKind::kComputed) continue;
    GraphOp op = built->ops()[next++];
    if (op.name == "layers.5.mlp_norm") op.attributes.epsilon = 0.5f;
    for (uint32_t& input : op.inputs) input = numbers[input];
    numbers.push_back(graph.AddOp(op.kind, op.name, op.inputs, value.type, op.attributes));
  }
  for (uint32_t output : built->outputs()) graph.AddOutput(numbers[output]);
  EXPECT_THAT(CallsOf(FindPartition(graph)), ElementsAre(1, 5, 1));
}

}  // namespace
}  // namespace npubank

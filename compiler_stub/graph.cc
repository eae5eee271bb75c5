#include "compiler_stub/graph.h"

#include <optional>
#include <utility>

namespace npubank {

uint32_t Graph::AddValue(GraphValue value, uint32_t root) {
  values_.push_back(std::move(value));
  roots_.push_back(root);
  return static_cast<uint32_t>(values_.size() - 1);
}

uint32_t Graph::AddInput(std::string name, TensorType type) {
  const auto number = static_cast<uint32_t>(values_.size());
  return AddValue({std::move(name), std::move(type), ValueKind::kInput, nullptr}, number);
}

uint32_t Graph::AddState(std::string name, TensorType type) {
  const auto number = static_cast<uint32_t>(values_.size());
  return AddValue({std::move(name), std::move(type), ValueKind::kState, nullptr}, number);
}

uint32_t Graph::AddWeight(std::string name, RecipePtr recipe) {
  const auto number = static_cast<uint32_t>(values_.size());
  TensorType type = recipe->type();
  return AddValue({std::move(name), std::move(type), ValueKind::kWeight, std::move(recipe)},
                  number);
}

uint32_t Graph::AddOp(OpKind kind, std::string name, std::vector<uint32_t> inputs, TensorType type,
                      OpAttributes attributes) {
  auto number = static_cast<uint32_t>(values_.size());
  const uint32_t root = kind == OpKind::kCacheWrite ? roots_[inputs[1]] : number;
  AddValue({name, std::move(type), ValueKind::kComputed, nullptr}, root);
  ops_.push_back({kind, std::move(name), std::move(inputs), number, std::move(attributes)});
  return number;
}

namespace {

// Where each value is made (nullopt: by no operation) and how often it is used, outputs included.
struct Uses {
  explicit Uses(const Graph& graph) : maker(graph.values().size()), count(graph.values().size()) {
    for (size_t i = 0; i < graph.ops().size(); ++i) {
      maker[graph.ops()[i].output] = i;
      for (uint32_t input : graph.ops()[i].inputs) ++count[input];
    }
    for (uint32_t output : graph.outputs()) ++count[output];
  }
  std::vector<std::optional<size_t>> maker;
  std::vector<size_t> count;
};

// The MatMul that can take over `add`, with the addend it gets.
struct Fusion {
  size_t matmul = 0;
  uint32_t addend = 0;
};

std::optional<Fusion> FindFusion(const Graph& graph, const Uses& uses, const GraphOp& add) {
  if (add.kind != OpKind::kAdd) return std::nullopt;
  for (size_t side : {size_t{1}, size_t{0}}) {
    const uint32_t product = add.inputs[side];
    const uint32_t addend = add.inputs[1 - side];
    const std::optional<size_t> matmul = uses.maker[product];
    if (!matmul.has_value() || uses.count[product] != 1) continue;
    const GraphOp& op = graph.ops()[*matmul];
    if (op.kind != OpKind::kMatMul || op.inputs.size() != 2) continue;
    if (uses.maker[addend].has_value() && *uses.maker[addend] > *matmul) continue;
    return Fusion{*matmul, addend};
  }
  return std::nullopt;
}

}  // namespace

Graph Graph::WithFusedAdds() const {
  const Uses uses(*this);
  std::vector<GraphOp> ops = ops_;
  std::vector<bool> taken(ops.size(), false);
  for (size_t i = 0; i < ops_.size(); ++i) {
    const std::optional<Fusion> fusion = FindFusion(*this, uses, ops_[i]);
    if (!fusion.has_value() || ops[fusion->matmul].inputs.size() != 2) continue;
    GraphOp& matmul = ops[fusion->matmul];
    matmul.inputs.push_back(fusion->addend);
    matmul.output = ops_[i].output;
    taken[i] = true;
  }
  Graph fused = *this;
  fused.ops_.clear();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!taken[i]) fused.ops_.push_back(std::move(ops[i]));
  }
  return fused;
}

}  // namespace npubank

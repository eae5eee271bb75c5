#include "npubank/compiler_stub/frontend/graph.h"

#include <utility>

namespace npubank {

uint32_t Graph::AddValue(GraphValue value, uint32_t root) {
  values_.push_back(std::move(value));
  roots_.push_back(root);
  return static_cast<uint32_t>(values_.size() - 1);
}

uint32_t Graph::AddInput(std::string name, TensorType type) {
  const auto number = static_cast<uint32_t>(values_.size());
  return AddValue({std::move(name), std::move(type), ValueKind::kInput, std::nullopt}, number);
}

uint32_t Graph::AddState(std::string name, TensorType type) {
  const auto number = static_cast<uint32_t>(values_.size());
  return AddValue({std::move(name), std::move(type), ValueKind::kState, std::nullopt}, number);
}

uint32_t Graph::AddWeight(std::string name, LazyTensor weight, WeightPart part) {
  const auto number = static_cast<uint32_t>(values_.size());
  TensorType type = weight.type();
  return AddValue({std::move(name), std::move(type), ValueKind::kWeight, std::move(weight), part},
                  number);
}

uint32_t Graph::AddOp(OpKind kind, std::string name, std::vector<uint32_t> inputs, TensorType type,
                      OpAttributes attributes) {
  auto number = static_cast<uint32_t>(values_.size());
  const uint32_t root = kind == OpKind::kCacheWrite ? roots_[inputs[1]] : number;
  AddValue({name, std::move(type), ValueKind::kComputed, std::nullopt}, root);
  ops_.push_back({kind, std::move(name), std::move(inputs), number, std::move(attributes)});
  return number;
}

}  // namespace npubank

// Graph: one submodel before it is cut into functions: values and operations in execution order.
//
//   Graph graph;
//   uint32_t x = graph.AddInput("x", type);
//   uint32_t w = graph.AddWeight("w", tensor);
//   uint32_t y = graph.AddOp(OpKind::kMatMul, "y", {x, w}, type);
//   graph.AddOutput(y);
//
// Single assignment: every value is made once, by an operation or as an input, a weight or a state,
// and before it is used. A weight is a parameter: it has a name and a lazy tensor, no bytes; one in parts is a value per
// part, and what takes it takes them one after the other (weight_form.h). A state is
// memory that lives from run to run; the value that a CacheWrite makes is the same memory
// afterwards (Root says which). Plain data behind a few makers: shapes are the maker's duty, and
// checked with each function (function_check.h). Threads: none of its own.
#ifndef NPUBANK_COMPILER_STUB_FRONTEND_GRAPH_H_
#define NPUBANK_COMPILER_STUB_FRONTEND_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

enum class ValueKind { kComputed, kInput, kState, kWeight };

struct GraphValue {
  std::string name;
  TensorType type;
  ValueKind kind = ValueKind::kComputed;
  std::optional<LazyTensor> weight;
  WeightPart part = WeightPart::kWeight;  // of the stored weight that has the name
};

// Numbers of values, as in a Function; `output` is the value it makes.
using GraphOp = FunctionOp;

class Graph {
 public:
  uint32_t AddInput(std::string name, TensorType type);
  uint32_t AddState(std::string name, TensorType type);
  uint32_t AddWeight(std::string name, LazyTensor weight, WeightPart part = WeightPart::kWeight);
  // The result has the operation's name.
  uint32_t AddOp(OpKind kind, std::string name, std::vector<uint32_t> inputs, TensorType type,
                 OpAttributes attributes = {});
  void AddOutput(uint32_t value) { outputs_.push_back(value); }

  const std::vector<GraphValue>& values() const { return values_; }
  const std::vector<GraphOp>& ops() const { return ops_; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }
  const GraphValue& value(uint32_t number) const { return values_[number]; }

  // The state whose memory `value` is, through the cache writes that made it; else `value` itself.
  uint32_t Root(uint32_t value) const { return roots_[value]; }

 private:
  uint32_t AddValue(GraphValue value, uint32_t root);

  std::vector<GraphValue> values_;
  std::vector<uint32_t> roots_;  // by value
  std::vector<GraphOp> ops_;
  std::vector<uint32_t> outputs_;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_FRONTEND_GRAPH_H_

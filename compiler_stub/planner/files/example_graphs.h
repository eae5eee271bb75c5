// Graphs to measure and test plans with: the activations of well-known networks in F16, and a
// reader of graphs in JSON. Not part of the compiler: tests and benchmarks link
// npubank_planner_examples.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_FILES_EXAMPLE_GRAPHS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_FILES_EXAMPLE_GRAPHS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/planner/graph.h"

namespace npubank {

struct LlamaShape {
  int64_t layers = 16;
  int64_t model = 2048;
  int64_t heads = 32;
  int64_t kv_heads = 8;
  int64_t head = 64;
  int64_t hidden = 8192;
  int64_t vocabulary = 128256;
};
inline constexpr LlamaShape kLlama1B = {};
inline constexpr LlamaShape kLlama7B = {32, 4096, 32, 32, 128, 11008, 32000};

// A Llama decoder for `rows` positions against `context`, its caches and weights left out;
// attention of all heads at once, or head by head, each adding its columns to the attention's
// output.
PlanGraph LlamaGraph(const LlamaShape& shape, int64_t rows, int64_t context, bool per_head);

// An image UNet of the Stable Diffusion kind on a 64x64 latent: four levels down with two residual
// blocks each, the middle, four up with three, a skip connection from each block down to one up.
PlanGraph UNetGraph();

// {"align": 64, "outputs": ["name"], "tensors": {"name": {"size": 64, "external": false}},
//  "ops": [{"kind": "conv", "name": "c", "inputs": ["name"], "outputs": ["name"], "inplace": [0]}]}
// with the operations in the order they run. An "add" of two inputs is one; "conv", "matmul" and
// "bmm" can accumulate. InvalidArgument says what is missing or of the wrong type; the graph is not
// checked further (CheckGraph).
absl::StatusOr<PlanGraph> ParseGraphJson(absl::string_view text);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_FILES_EXAMPLE_GRAPHS_H_

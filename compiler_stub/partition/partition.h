// Partition: a flat list of operations cut into functions and the calls that run them.
//
//   Partition partition = FindPartition(graph);
//   partition.functions.size();  // 3 for a decoder: before the layers, one layer, after them
//   partition.calls.size();      // layers + 2
//
// Blocks that repeat one after the other (the layers of a decoder) become one function with a call
// each; what is before, between and after becomes functions that are called once. Nothing but the
// structure of the graph is looked at: two blocks are equal when their operations agree in kind,
// attributes and types, use each other's results in the same way, and take from outside values of
// the same types in the same pattern. Which values those are is free: they are the function's
// parameters.
//
// Of all repeats the one is chosen that saves the most operations; among those the one whose blocks
// take the fewest bytes of activations from outside. A block has at least kMinimumBlockOps
// operations, below which a call costs more than it saves, and is not itself a repetition.
//
// Deterministic. Cost: O(n^2) comparisons of numbers for n operations (10 ms for 3600). Threads:
// pure.
#ifndef NPUBANK_COMPILER_STUB_PARTITION_PARTITION_H_
#define NPUBANK_COMPILER_STUB_PARTITION_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "npubank/compiler_stub/frontend/graph.h"

namespace npubank {

inline constexpr size_t kMinimumBlockOps = 8;

// Operations [begin, end) of the graph, run by one call. Inputs and outputs are values of the
// graph, in the order of the function's parameters: activations, then graph inputs, states and
// weights, each in the order of first use. A value in a state's memory is its state. Outputs are
// the results that any call of the same function must hand on; one that only another call hands on
// is here as well.
struct PartitionCall {
  size_t function = 0;
  size_t begin = 0;
  size_t end = 0;
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
};

struct PartitionFunction {
  std::vector<size_t> calls;  // at least one, in order
};

struct Partition {
  std::vector<PartitionFunction> functions;
  std::vector<PartitionCall> calls;  // in the order of the operations, which they cover
};

Partition FindPartition(const Graph& graph);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PARTITION_PARTITION_H_

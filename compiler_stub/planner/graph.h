// PlanGraph: what the planner needs to know of a program: operations in the order they will run, and
// the values that pass between them. What an operation computes does not matter here, only what it
// may do to memory.
//
//   PlanGraph graph;
//   const int x = graph.AddValue("x", 4096);
//   const int y = graph.AddValue("y", 4096);
//   graph.ops.push_back(
//       {.name = "act", .kind = "silu", .inputs = {x}, .outputs = {y}, .in_place = {0}});
//
// A value that no operation makes is an input of the program and alive from the start. An
// `external` value lives in memory of its own (arguments, weights, states) and is never planned nor
// written over.
//
// What each permission below may lead to, and what happens then, is decided by lifetimes.h: a
// permission is never an order, but for views, which always lie inside their input.
//
// Threads: plain data. Units: bytes.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_GRAPH_H_
#define NPUBANK_COMPILER_STUB_PLANNER_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace npubank {

struct PlanValue {
  std::string name;
  uint64_t bytes = 0;
  bool external = false;
  bool kept = false;  // read after the last operation: a result of the program
};

struct PlanOp {
  std::string name = {};
  std::string kind = {};
  std::vector<int> inputs = {};   // value numbers
  std::vector<int> outputs = {};  // value numbers
  // Positions in `inputs` that outputs[0] may be written over. It is, over the first of them whose
  // value dies here, is as large, and is read at no other position, as itself or through a view:
  // such a read would see it half overwritten.
  std::vector<int> in_place = {};
  // outputs[0] is inputs[0], or the part of it from `view_offset` on: nothing runs, nothing is
  // copied. A view begins wherever its offset says, between places as well.
  bool is_view = false;
  uint64_t view_offset = 0;
  // outputs[0] = inputs[0] + inputs[1], element by element: may vanish into the operation that
  // makes one of the two, if that can accumulate. Then this operation must not be run: the other
  // one's output is the sum, and Lifetimes::fused_adds says so.
  bool is_add = false;
  // Can add its result to what already lies in the place of its only output, instead of overwriting
  // it. Must do so exactly where Lifetimes::fused_adds names it.
  bool can_accumulate = false;
  int64_t cost = 1;  // in any unit, for the critical path
};

struct PlanGraph {
  std::vector<PlanValue> values;
  std::vector<PlanOp> ops;
  uint64_t alignment = 64;  // of every place but a view's; sizes are rounded up to it

  int AddValue(std::string name, uint64_t bytes, bool external = false, bool kept = false) {
    values.push_back({std::move(name), bytes, external, kept});
    return static_cast<int>(values.size()) - 1;
  }
};

inline constexpr int kNoOp = -1;

// The operation that makes each value; kNoOp for inputs of the program. Linear.
// InvalidArgument naming the operation or value when: a number does not name a value or a position;
// a value is made twice, or read before it is made, or the operations form a cycle (the message
// spells it); a view or an add does not have the inputs, output and sizes it needs; the sizes
// together pass 2^63; there are more than kMaxBuffers (problem.h) values or operations.
absl::StatusOr<std::vector<int>> CheckGraph(const PlanGraph& graph);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_GRAPH_H_

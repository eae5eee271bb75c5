#include "npubank/compiler_stub/planner/graph.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

absl::Status Bad(const PlanOp& op, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("operation '", op.name, "' ", what));
}

absl::Status CheckValues(const PlanGraph& graph) {
  if (graph.alignment < 1 || graph.alignment > kMaxAlignment ||
      (graph.alignment & (graph.alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("alignment ", graph.alignment,
                                                   " is not a power of two up to ", kMaxAlignment));
  }
  uint64_t room = std::numeric_limits<int64_t>::max();
  for (const PlanValue& value : graph.values) {
    const uint64_t aside = 2 * graph.alignment;  // rounded up, and placed on a boundary
    if (room < aside || value.bytes > room - aside) {
      return absl::InvalidArgumentError(absl::StrCat("with value '", value.name, "' of ",
                                                     value.bytes, " bytes the sizes pass 2^63"));
    }
    room -= value.bytes + aside;
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const PlanOp& op, int values) {
  for (const std::vector<int>* list : {&op.inputs, &op.outputs}) {
    for (int value : *list) {
      if (value < 0 || value >= values) {
        return Bad(op, absl::StrCat("names value ", value, " of ", values));
      }
    }
  }
  for (int position : op.in_place) {
    if (position < 0 || position >= static_cast<int>(op.inputs.size()) || op.outputs.empty()) {
      return Bad(op, absl::StrCat("cannot write over input ", position, " of ", op.inputs.size()));
    }
  }
  if (op.cost < 0) return Bad(op, absl::StrCat("has cost ", op.cost));
  return absl::OkStatus();
}

absl::Status CheckView(const PlanGraph& graph, const PlanOp& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) {
    return Bad(op, "is a view and needs one input and one output");
  }
  const PlanValue& from = graph.values[op.inputs[0]];
  const PlanValue& to = graph.values[op.outputs[0]];
  if (to.bytes > from.bytes || op.view_offset > from.bytes - to.bytes) {
    return Bad(op, absl::StrCat("views ", to.bytes, " bytes from ", op.view_offset, " of '",
                                from.name, "', which has ", from.bytes));
  }
  if (to.external && !from.external) {
    return Bad(op, absl::StrCat("makes '", to.name, "' in memory of its own: copy, do not view"));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const PlanGraph& graph, const PlanOp& op) {
  if (op.is_view) NPUBANK_RETURN_IF_ERROR(CheckView(graph, op));
  if (op.is_add) {
    if (op.inputs.size() != 2 || op.outputs.size() != 1) {
      return Bad(op, "is an add and needs two inputs and one output");
    }
    for (int input : op.inputs) {
      if (graph.values[input].bytes == graph.values[op.outputs[0]].bytes) continue;
      return Bad(op, absl::StrCat("adds '", graph.values[input].name,
                                  "', which is not as large as ", "its sum"));
    }
  }
  if (op.can_accumulate && op.outputs.size() != 1) {
    return Bad(op, "can accumulate and needs one output");
  }
  return absl::OkStatus();
}

// The way from `from` back to itself through the makers of inputs, empty when there is none.
std::vector<int> FindCycle(const PlanGraph& graph, absl::Span<const int> makers, int from) {
  std::vector<int> reached_from(graph.ops.size(), kNoOp);
  std::vector<int> frontier = {from};
  while (!frontier.empty()) {
    const int op = frontier.back();
    frontier.pop_back();
    for (int input : graph.ops[op].inputs) {
      const int maker = makers[input];
      if (maker == kNoOp || reached_from[maker] != kNoOp) continue;
      reached_from[maker] = op;
      if (maker != from) {
        frontier.push_back(maker);
        continue;
      }
      std::vector<int> cycle = {from};
      for (int at = reached_from[from]; at != from; at = reached_from[at]) cycle.push_back(at);
      cycle.push_back(from);
      return cycle;
    }
  }
  return {};
}

absl::Status ReadTooEarly(const PlanGraph& graph, absl::Span<const int> makers, int op, int value) {
  const std::vector<int> cycle = FindCycle(graph, makers, op);
  if (!cycle.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph is cyclic: ", absl::StrJoin(cycle, " -> ", [&](std::string* out, int at) {
          absl::StrAppend(out, "'", graph.ops[at].name, "'");
        })));
  }
  return Bad(graph.ops[op],
             absl::StrCat("reads '", graph.values[value].name, "' before operation '",
                          graph.ops[makers[value]].name, "' makes it"));
}

}  // namespace

absl::StatusOr<std::vector<int>> CheckGraph(const PlanGraph& graph) {
  if (graph.values.size() > static_cast<size_t>(kMaxBuffers) ||
      graph.ops.size() > static_cast<size_t>(kMaxBuffers)) {
    return absl::InvalidArgumentError(absl::StrCat("at most ", kMaxBuffers, " values and as many ",
                                                   "operations can be planned at once"));
  }
  NPUBANK_RETURN_IF_ERROR(CheckValues(graph));
  std::vector<int> makers(graph.values.size(), kNoOp);
  for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
    const PlanOp& op = graph.ops[i];
    NPUBANK_RETURN_IF_ERROR(CheckNumbers(op, static_cast<int>(graph.values.size())));
    NPUBANK_RETURN_IF_ERROR(CheckShape(graph, op));
    for (int output : op.outputs) {
      if (makers[output] != kNoOp) {
        return Bad(op, absl::StrCat("makes '", graph.values[output].name, "', which operation '",
                                    graph.ops[makers[output]].name, "' has made"));
      }
      makers[output] = i;
    }
  }
  for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
    for (int input : graph.ops[i].inputs) {
      if (makers[input] >= i) return ReadTooEarly(graph, makers, i, input);
    }
  }
  return makers;
}

}  // namespace npubank

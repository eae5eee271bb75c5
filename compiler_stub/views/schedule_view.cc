#include "npubank/compiler_stub/views/schedule_view.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/compiler_stub/planner/chains.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// Bytes of scratch, or of the memory behind an argument.
struct Range {
  int64_t space = 0;  // -1: scratch
  uint64_t begin = 0;
  uint64_t end = 0;

  bool Touches(const Range& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

struct Access {
  std::vector<Range> reads;
  Range write;
};

Range RangeOf(const Function& function, uint32_t number) {
  const FunctionValue& value = function.values[number];
  const uint64_t bytes = value.type.bytes();
  if (value.storage == Storage::kScratch) return {-1, value.place, value.place + bytes};
  const int32_t over = function.arguments[value.place].over;
  return {over >= 0 ? over : static_cast<int64_t>(value.place), 0, bytes};
}

bool MustFollow(const Access& later, const Access& earlier) {
  const auto touched_by = [](const Range& write) {
    return [&write](const Range& read) { return read.Touches(write); };
  };
  return later.write.Touches(earlier.write) ||
         std::any_of(later.reads.begin(), later.reads.end(), touched_by(earlier.write)) ||
         std::any_of(earlier.reads.begin(), earlier.reads.end(), touched_by(later.write));
}

int64_t PathAsPlanned(const Function& function) {
  std::vector<Access> accesses;
  std::vector<int64_t> path;  // that ends with each operation
  int64_t longest = 0;
  for (const FunctionOp& op : function.ops) {
    Access access;
    access.write = RangeOf(function, op.output);
    for (uint32_t input : op.inputs) access.reads.push_back(RangeOf(function, input));
    int64_t before = 0;
    for (size_t i = 0; i < accesses.size(); ++i)
      if (path[i] > before && MustFollow(access, accesses[i])) before = path[i];
    accesses.push_back(std::move(access));
    path.push_back(before + 1);
    longest = std::max(longest, before + 1);
  }
  return longest;
}

absl::Status PlanAnew(const PlanGraph& graph, Schedule schedule, Schedules::Cost* cost) {
  NPUBANK_ASSIGN_OR_RETURN(const GraphPlan plan,
                           PlanGraphMemory(graph, {.schedule = schedule}, PlanOptions()));
  cost->bytes = plan.plan.bytes;
  cost->lower_bound = plan.plan.lower_bound;
  return absl::OkStatus();
}

// From what the hungriest function costs to what the arena does.
absl::Status AddCalls(const SubmodelBlob& blob, Schedule schedule, Schedules::Cost* cost) {
  Schedules::Cost least;
  for (auto [scratch, arena] : {std::pair(cost->lower_bound, &least), {cost->bytes, cost}}) {
    PlanGraph graph = CallGraph(blob);
    graph.AddValue(kScratchArgument, scratch, /*external=*/false, /*kept=*/true);
    NPUBANK_RETURN_IF_ERROR(PlanAnew(graph, schedule, arena));
  }
  cost->lower_bound = least.lower_bound;
  return absl::OkStatus();
}

void TakeHungrier(const Schedules::Cost& one, Schedules::Cost* all) {
  all->bytes = std::max(all->bytes, one.bytes);
  all->lower_bound = std::max(all->lower_bound, one.lower_bound);
}

}  // namespace

PlanGraph FunctionGraph(const Function& function) {
  PlanGraph graph;
  for (const FunctionValue& value : function.values)
    graph.AddValue(value.name, value.type.bytes(), value.storage == Storage::kArgument);
  for (const FunctionOp& op : function.ops) {
    PlanOp plan;
    plan.name = op.name;
    plan.kind = std::string(OpKindName(op.kind));
    plan.inputs.assign(op.inputs.begin(), op.inputs.end());
    plan.outputs = {static_cast<int>(op.output)};
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (OutputMayOverwrite(op, i)) plan.in_place.push_back(static_cast<int>(i));
    graph.ops.push_back(std::move(plan));
  }
  return graph;
}

PlanGraph CallGraph(const SubmodelBlob& blob) {
  PlanGraph graph;
  for (const SubmodelValue& value : blob.values)
    graph.AddValue(value.name, value.type.bytes(), value.placement != Placement::kArena);
  for (const Call& call : blob.calls) {
    const std::vector<FunctionArgument>& arguments =
        blob.functions[call.function].function.arguments;
    PlanOp op;
    op.name = call.name;
    op.kind = blob.functions[call.function].name;
    int over = -1;
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (call.arguments[a].kind != BindingKind::kValue) continue;
      const auto value = static_cast<int>(call.arguments[a].index);
      if (arguments[a].kind == ArgumentKind::kInput) {
        op.inputs.push_back(value);
      } else if (arguments[a].over >= 0) {
        over = static_cast<int>(call.arguments[static_cast<size_t>(arguments[a].over)].index);
        op.outputs.insert(op.outputs.begin(), value);
      } else {
        op.outputs.push_back(value);
      }
    }
    const auto position = std::find(op.inputs.begin(), op.inputs.end(), over);
    if (over >= 0) op.in_place = {static_cast<int>(position - op.inputs.begin())};
    graph.ops.push_back(std::move(op));
  }
  return graph;
}

absl::StatusOr<Schedules> ViewSchedules(const Function& function) {
  const PlanGraph graph = FunctionGraph(function);
  Schedules schedules;
  NPUBANK_RETURN_IF_ERROR(PlanAnew(graph, Schedule::kSerial, &schedules.serial));
  // Refuses what is too large for the quadratic steps below.
  NPUBANK_RETURN_IF_ERROR(PlanAnew(graph, Schedule::kParallel, &schedules.parallel));
  NPUBANK_ASSIGN_OR_RETURN(const Chains chains, FindChains(graph));
  schedules.serial.path = chains.serial_cost;
  schedules.parallel.path = chains.critical_path;
  schedules.path_as_planned = PathAsPlanned(function);
  return schedules;
}

absl::StatusOr<Schedules> ViewSchedules(const SubmodelBlob& blob) {
  std::vector<Schedules> functions;
  Schedules all;
  for (const SubmodelFunction& function : blob.functions) {
    NPUBANK_ASSIGN_OR_RETURN(const Schedules one, ViewSchedules(function.function));
    functions.push_back(one);
    TakeHungrier(one.serial, &all.serial);
    TakeHungrier(one.parallel, &all.parallel);
  }
  for (const Call& call : blob.calls) {
    all.serial.path += functions[call.function].serial.path;
    all.parallel.path += functions[call.function].parallel.path;
    all.path_as_planned += functions[call.function].path_as_planned;
  }
  NPUBANK_RETURN_IF_ERROR(AddCalls(blob, Schedule::kSerial, &all.serial));
  NPUBANK_RETURN_IF_ERROR(AddCalls(blob, Schedule::kParallel, &all.parallel));
  return all;
}

}  // namespace npubank

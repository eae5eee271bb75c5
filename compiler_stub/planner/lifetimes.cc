#include "npubank/compiler_stub/planner/lifetimes.h"

#include <algorithm>
#include <utility>

#include "npubank/compiler_stub/planner/ancestors.h"
#include "npubank/compiler_stub/planner/groups.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

int64_t RoundUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The buffer that holds `group`.
Buffer BufferOf(const PlanGraph& graph, absl::Span<const int> makers, const Group& group) {
  const int64_t end = std::max<int64_t>(1, static_cast<int64_t>(graph.ops.size()));
  Buffer buffer;
  buffer.lower = end - 1;
  buffer.upper = 1;
  for (int use : group.uses) {
    buffer.lower = std::min<int64_t>(buffer.lower, use);
    buffer.upper = std::max<int64_t>(buffer.upper, use + 1);
  }
  if (group.from_start) buffer.lower = 0;
  if (group.kept) buffer.upper = end;
  buffer.upper = std::max(buffer.upper, buffer.lower + 1);
  const int first = group.values.front();
  buffer.id = graph.values[first].name;
  buffer.kind = makers[first] == kNoOp ? "input" : graph.ops[makers[first]].kind;
  buffer.size = RoundUp(group.bytes, graph.alignment);
  buffer.alignment = graph.alignment;
  for (int value : group.values) buffer.values.push_back(graph.values[value].name);
  return buffer;
}

// Pairs that the serial order keeps apart although nothing else does. All uses of the later group
// come after its first one, so it is enough that the earlier group's uses are ancestors of that.
void FindParallelPairs(const Ancestors& ancestors, absl::Span<const Group* const> groups,
                       Problem* problem) {
  const int count = static_cast<int>(groups.size());
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < count; ++j) {
      if (problem->buffers[i].upper > problem->buffers[j].lower) continue;
      const int start = static_cast<int>(problem->buffers[j].lower);
      const bool apart = std::all_of(groups[i]->uses.begin(), groups[i]->uses.end(),
                                     [&](int use) { return ancestors.Before(use, start); });
      if (!apart) problem->parallel.emplace_back(i, j);
    }
  }
}

}  // namespace

absl::StatusOr<Lifetimes> FindLifetimes(const PlanGraph& graph, const LifetimeOptions& options) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<int> makers, CheckGraph(graph));
  std::optional<Ancestors> ancestors;
  if (options.schedule == Schedule::kParallel) {
    NPUBANK_ASSIGN_OR_RETURN(ancestors, Ancestors::Of(graph, makers));
  }
  Lifetimes lifetimes;
  Groups groups(graph, makers, ancestors.has_value() ? &*ancestors : nullptr);
  for (const Group& group : groups.groups()) {
    if (!group.external) lifetimes.sum_of_values += RoundUp(group.bytes, graph.alignment);
  }
  if (options.fused_add) lifetimes.fused_adds = groups.FuseAdds();
  if (options.in_place) lifetimes.in_place = groups.WriteInPlace();

  lifetimes.buffer_of.assign(graph.values.size(), kNoBuffer);
  lifetimes.offset_in_buffer.assign(graph.values.size(), 0);
  std::vector<const Group*> planned;
  for (const Group& group : groups.groups()) {
    if (group.values.empty() || group.external) continue;
    for (int value : group.values) {
      lifetimes.buffer_of[value] = static_cast<int>(planned.size());
      lifetimes.offset_in_buffer[value] = groups.offset_of(value);
    }
    planned.push_back(&group);
    lifetimes.problem.buffers.push_back(BufferOf(graph, makers, group));
  }
  if (ancestors.has_value()) FindParallelPairs(*ancestors, planned, &lifetimes.problem);
  return lifetimes;
}

absl::StatusOr<GraphPlan> PlanGraphMemory(const PlanGraph& graph, const LifetimeOptions& options,
                                          const PlanOptions& plan_options) {
  GraphPlan result;
  NPUBANK_ASSIGN_OR_RETURN(result.lifetimes, FindLifetimes(graph, options));
  NPUBANK_ASSIGN_OR_RETURN(result.plan, PlanMemory(result.lifetimes.problem, plan_options));
  NPUBANK_RETURN_IF_ERROR(Validate(result.lifetimes.problem, result.plan.offsets));
  return result;
}

}  // namespace npubank

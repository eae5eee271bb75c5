#include "npubank/compiler_stub/planner/lifetimes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/planner/ancestors.h"
#include "npubank/compiler_stub/planner/groups.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// The buffer that holds `group`.
Buffer BufferOf(const PlanGraph& graph, absl::Span<const int> makers, const Group& group) {
  const int64_t end = std::max<int64_t>(1, static_cast<int64_t>(graph.ops.size()));
  Buffer buffer;
  buffer.lower = end - 1;
  buffer.upper = 1;
  if (group.first_use != kNoOp) buffer.lower = group.first_use;
  for (int use : group.uses) buffer.upper = std::max<int64_t>(buffer.upper, use + 1);
  if (group.from_start) buffer.lower = 0;
  if (group.kept) buffer.upper = end;
  buffer.upper = std::max(buffer.upper, buffer.lower + 1);
  const int first = group.values.front();
  buffer.id = graph.values[first].name;
  buffer.kind = makers[first] == kNoOp ? "input" : graph.ops[makers[first]].kind;
  buffer.size = AlignUp(group.bytes, graph.alignment);
  buffer.alignment = graph.alignment;
  for (int value : group.values) buffer.values.push_back(graph.values[value].name);
  return buffer;
}

// Pairs that the serial order keeps apart although nothing else does. All uses of the later group
// come after its first one, so it is enough that the earlier group's uses are ancestors of that.
absl::Status FindParallelPairs(const Ancestors& ancestors, absl::Span<const Group* const> groups,
                               Problem* problem, TimeLimit* limit) {
  const int count = static_cast<int>(groups.size());
  if (count > kMaxParallelBuffers) {
    return absl::InvalidArgumentError(absl::StrCat("a parallel schedule is planned for at most ",
                                                   kMaxParallelBuffers, " buffers, not ", count));
  }
  problem->parallel = ParallelPairs(count);
  // A few later groups at a time: the rows of bits that they meet in stay in the processor's cache.
  constexpr int kTogether = 64;
  for (int block = 0; block < count; block += kTogether) {
    const int end = std::min(count, block + kTogether);
    if (limit != nullptr && limit->Reached(int64_t{kTogether} * count)) {
      problem->parallel.AddAllFrom(block);
      break;
    }
    for (int earlier = 0; earlier < count; ++earlier) {
      const std::vector<int>& uses = groups[earlier]->uses;
      for (int later = block; later < end; ++later) {
        const int64_t start = problem->buffers[later].lower;
        if (problem->buffers[earlier].upper > start) continue;
        const bool apart = std::all_of(uses.begin(), uses.end(), [&](int use) {
          return ancestors.Before(use, static_cast<int>(start));
        });
        if (!apart) problem->parallel.Add(earlier, later);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Lifetimes> FindLifetimes(const PlanGraph& graph, const LifetimeOptions& options,
                                        TimeLimit* limit) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<int> makers, CheckGraph(graph));
  std::optional<Ancestors> ancestors;
  if (options.schedule == Schedule::kParallel) {
    NPUBANK_ASSIGN_OR_RETURN(ancestors, Ancestors::Of(graph, makers, limit));
  }
  Lifetimes lifetimes;
  Groups groups(graph, makers, ancestors.has_value() ? &*ancestors : nullptr, limit);
  for (const Group& group : groups.groups()) {
    if (!group.external) lifetimes.sum_of_values += AlignUp(group.bytes, graph.alignment);
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
  if (ancestors.has_value()) {
    NPUBANK_RETURN_IF_ERROR(FindParallelPairs(*ancestors, planned, &lifetimes.problem, limit));
  }
  return lifetimes;
}

}  // namespace npubank

#include "npubank/compiler_stub/planner/chains.h"

#include <algorithm>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr int kNoChain = -1;

// Gives the costliest path through operations without a chain the number `chain`; returns its cost.
int64_t TakeLongestPath(const PlanGraph& graph, absl::Span<const int> makers, int chain,
                        std::vector<int>* chain_of) {
  const int count = static_cast<int>(graph.ops.size());
  std::vector<int64_t> cost(count, 0);  // of the costliest path that ends here
  std::vector<int> before(count, kNoOp);
  int last = kNoOp;
  for (int i = 0; i < count; ++i) {
    if ((*chain_of)[i] != kNoChain) continue;
    for (int input : graph.ops[i].inputs) {
      const int maker = makers[input];
      if (maker == kNoOp || (*chain_of)[maker] != kNoChain) continue;
      if (before[i] != kNoOp && cost[maker] <= cost[before[i]]) continue;
      before[i] = maker;
    }
    cost[i] = graph.ops[i].cost + (before[i] == kNoOp ? 0 : cost[before[i]]);
    if (last == kNoOp || cost[i] > cost[last]) last = i;
  }
  for (int at = last; at != kNoOp; at = before[at]) (*chain_of)[at] = chain;
  return last == kNoOp ? 0 : cost[last];
}

}  // namespace

absl::StatusOr<Chains> FindChains(const PlanGraph& graph) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<int> makers, CheckGraph(graph));
  Chains chains;
  chains.chain_of.assign(graph.ops.size(), kNoChain);
  for (const PlanOp& op : graph.ops) chains.serial_cost += op.cost;
  const auto left = [&] {
    return std::any_of(chains.chain_of.begin(), chains.chain_of.end(),
                       [](int chain) { return chain == kNoChain; });
  };
  for (; left(); ++chains.count) {
    const int64_t cost = TakeLongestPath(graph, makers, chains.count, &chains.chain_of);
    if (chains.count == 0) chains.critical_path = cost;
  }
  return chains;
}

}  // namespace npubank

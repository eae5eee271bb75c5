// Chains: what a parallel schedule gains, and which operations to run on which queue.
//
//   NPUBANK_ASSIGN_OR_RETURN(Chains chains, FindChains(graph));
//   speed-up at best: chains.serial_cost / chains.critical_path
//   operation i runs on queue chains.chain_of[i] % queues, after the events of its inputs
//
// Longest-path colouring: the costliest path through the graph is chain 0, the costliest through
// what is left is chain 1, and so on. Operations of one chain run one after the other anyway, so
// they lose nothing by sharing a queue; and the values that a chain hands on, each dead when the
// next but one is made, can share memory in any schedule. (The parallel plan of lifetimes.h shares
// more: whatever a path orders, on one chain or across several.)
//
// Cost: operations times chains. Threads: pure. Errors: those of CheckGraph.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_CHAINS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_CHAINS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/planner/graph.h"

namespace npubank {

struct Chains {
  std::vector<int> chain_of;  // per operation
  int count = 0;
  int64_t serial_cost = 0;    // of all operations, one after the other
  int64_t critical_path = 0;  // of chain 0: no number of queues is faster
};

absl::StatusOr<Chains> FindChains(const PlanGraph& graph);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_CHAINS_H_

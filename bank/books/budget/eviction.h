// Which tensors leave the device when room is needed: a pure choice.
//
//   std::vector<size_t> victims = ChooseVictims(candidates, bytes_needed);
//   if (victims.empty()) ... not even all of them would be enough: nothing leaves ...
//
// First what nobody owns any more, then what was used longest ago; among those of one age the
// cheapest to bring back per byte. No more than needed, and nothing that gives no bytes back. Cost:
// a sort of the candidates.
#ifndef NPUBANK_BANK_BOOKS_BUDGET_EVICTION_H_
#define NPUBANK_BANK_BOOKS_BUDGET_EVICTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npubank {

struct EvictionCandidate {
  uint64_t bytes = 0;            // that leaving gives back
  bool reclaimable = false;      // nobody owns it
  uint64_t last_used = 0;        // in loads, not in seconds: one model's tensors are of one age
  double seconds_to_return = 0;  // what bringing it back will cost
};

// Indices into `candidates`, in the order they should leave; empty when together they are too
// small.
std::vector<size_t> ChooseVictims(const std::vector<EvictionCandidate>& candidates, uint64_t bytes);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_BUDGET_EVICTION_H_

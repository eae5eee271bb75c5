#include "npubank/bank/books/budget/eviction.h"

#include <algorithm>

namespace npubank {
namespace {

bool LeavesBefore(const EvictionCandidate& a, const EvictionCandidate& b) {
  if (a.reclaimable != b.reclaimable) return a.reclaimable;
  if (a.last_used != b.last_used) return a.last_used < b.last_used;
  // a.seconds / a.bytes < b.seconds / b.bytes, without the division.
  return a.seconds_to_return * static_cast<double>(b.bytes) <
         b.seconds_to_return * static_cast<double>(a.bytes);
}

}  // namespace

std::vector<size_t> ChooseVictims(const std::vector<EvictionCandidate>& candidates,
                                  uint64_t bytes) {
  std::vector<size_t> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].bytes > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return LeavesBefore(candidates[a], candidates[b]); });
  uint64_t freed = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    freed += candidates[order[i]].bytes;
    if (freed >= bytes) {
      order.resize(i + 1);
      return order;
    }
  }
  return {};
}

}  // namespace npubank

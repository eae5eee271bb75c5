#include "npubank/compiler_stub/planner/search/antichain.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "npubank/compiler_stub/planner/bit_matrix.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"

namespace npubank {
namespace {

// The largest flow from left to right nodes (buffer i is both): `supply` leaves each left node at
// most, `supply` reaches each right node at most, edges carry any amount. Shortest augmenting paths
// in phases (Dinic): a path alternates between unused edges to the right and used ones back to the
// left.
class Transport {
 public:
  Transport(std::vector<std::vector<int>> later, std::vector<uint64_t> supply, TimeLimit& limit)
      : later_(std::move(later)),
        left_(supply),
        right_(supply),
        from_(supply.size()),
        limit_(limit) {
    for (size_t i = 0; i < supply.size(); ++i) from_[i].assign(supply.size(), 0);
  }

  // nullopt: the limit was reached.
  std::optional<uint64_t> MaxFlow() {
    uint64_t flow = 0;
    while (FindLevels()) {
      if (limit_.Reached(0)) return std::nullopt;
      next_.assign(left_.size(), 0);
      next_back_.assign(left_.size(), 0);
      for (int i = 0; i < static_cast<int>(left_.size()); ++i) {
        while (left_[i] > 0) {
          const uint64_t pushed = Push(i, left_[i]);
          if (pushed == 0) break;
          left_[i] -= pushed;
          flow += pushed;
        }
      }
    }
    if (limit_.Reached(0)) return std::nullopt;  // or there may be more
    return flow;
  }

 private:
  // Distances of left nodes from those with supply; true when a right node with demand is reached.
  bool FindLevels() {
    level_.assign(left_.size(), -1);
    std::vector<int> queue;
    for (int i = 0; i < static_cast<int>(left_.size()); ++i) {
      if (left_[i] == 0) continue;
      level_[i] = 0;
      queue.push_back(i);
    }
    std::vector<bool> seen(left_.size(), false);
    bool reached = false;
    for (size_t at = 0; at < queue.size(); ++at) {
      const int left = queue[at];
      if (limit_.Reached(static_cast<int64_t>(later_[left].size()))) return false;
      for (int right : later_[left]) {
        if (seen[right]) continue;
        seen[right] = true;
        limit_.Reached(static_cast<int64_t>(left_.size()));
        reached |= right_[right] > 0;
        for (int back = 0; back < static_cast<int>(left_.size()); ++back) {
          if (from_[right][back] == 0 || level_[back] >= 0) continue;
          level_[back] = level_[left] + 1;
          queue.push_back(back);
        }
      }
    }
    return reached;
  }

  uint64_t Push(int left, uint64_t amount) {
    for (size_t& at = next_[left]; at < later_[left].size(); ++at, next_back_[left] = 0) {
      if (limit_.Reached(static_cast<int64_t>(left_.size()))) return 0;
      const int right = later_[left][at];
      if (const uint64_t pushed = std::min(amount, right_[right]); pushed > 0) {
        right_[right] -= pushed;
        from_[right][left] += pushed;
        return pushed;
      }
      for (int& back = next_back_[left]; back < static_cast<int>(left_.size()); ++back) {
        const uint64_t used = from_[right][back];
        if (used == 0 || level_[back] != level_[left] + 1) continue;
        const uint64_t pushed = Push(back, std::min(amount, used));
        if (pushed == 0) continue;
        from_[right][back] -= pushed;
        from_[right][left] += pushed;
        return pushed;
      }
    }
    return 0;
  }

  const std::vector<std::vector<int>> later_;
  std::vector<uint64_t> left_;
  std::vector<uint64_t> right_;
  std::vector<std::vector<uint64_t>> from_;  // from_[right][left]: what flows
  std::vector<int> level_;
  std::vector<size_t> next_;
  std::vector<int> next_back_;
  TimeLimit& limit_;
};

// For each buffer those that can take over its bytes, directly or through others; nullopt when the
// limit was reached.
std::optional<std::vector<std::vector<int>>> FindLater(const Problem& problem, TimeLimit& limit) {
  const int count = static_cast<int>(problem.buffers.size());
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return problem.buffers[a].lower > problem.buffers[b].lower; });
  BitMatrix later(count);
  std::vector<std::vector<int>> lists(count);
  // From the last to the first: what follows a buffer is complete before it is handed on.
  for (int i : order) {
    for (int j = 0; j < count; ++j) {
      if (limit.Reached(later.words())) return std::nullopt;
      const bool direct = problem.buffers[i].upper <= problem.buffers[j].lower;
      if (!direct || problem.parallel.Contains(i, j) || later.Get(i, j)) continue;
      later.Set(i, j);
      later.OrRow(i, j);
    }
    later.ForEach(i, [&](int j) { lists[i].push_back(j); });
  }
  return lists;
}

// Bytes of a set of buffers each of which is in every other's way: those alive at the busiest moment
// or none, and then, the largest first, whatever still goes with all of them.
uint64_t GrowTogether(const Problem& problem, bool from_busiest, TimeLimit& limit) {
  int64_t moment = 0;
  LiveLowerBound(problem, &moment);
  std::vector<int> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  const auto alive = [&](int i) {
    return from_busiest && problem.buffers[i].lower <= moment && moment < problem.buffers[i].upper;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (alive(a) != alive(b)) return alive(a);
    return problem.buffers[a].size > problem.buffers[b].size;
  });
  std::vector<int> together;
  uint64_t bytes = 0;
  for (int i : order) {
    if (limit.Reached(static_cast<int64_t>(together.size()))) break;
    const bool goes = std::all_of(together.begin(), together.end(),
                                  [&](int other) { return Conflict(problem, i, other); });
    if (!goes) continue;
    together.push_back(i);
    bytes += problem.buffers[i].size;
  }
  return bytes;
}

}  // namespace

uint64_t LowerBound(const Problem& problem, TimeLimit& limit) {
  const uint64_t live = LiveLowerBound(problem);
  if (problem.parallel.buffers() == 0) return live;
  if (problem.buffers.size() > kMaxAntichainBuffers) {
    const uint64_t grown = std::max(live, GrowTogether(problem, true, limit));
    if (grown == SumOfSizes(problem)) return grown;
    return std::max(grown, GrowTogether(problem, false, limit));
  }
  std::optional<std::vector<std::vector<int>>> later = FindLater(problem, limit);
  if (!later.has_value()) return live;
  std::vector<uint64_t> sizes;
  for (const Buffer& buffer : problem.buffers) sizes.push_back(buffer.size);
  const std::optional<uint64_t> flow =
      Transport(*std::move(later), std::move(sizes), limit).MaxFlow();
  return flow.has_value() ? std::max(live, SumOfSizes(problem) - *flow) : live;
}

}  // namespace npubank

#include "npubank/compiler_stub/planner/antichain.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace npubank {
namespace {

// The largest flow from left to right nodes (buffer i is both): `supply` leaves each left node at
// most, `supply` reaches each right node at most, edges carry any amount. Shortest augmenting paths
// in phases (Dinic): a path alternates between unused edges to the right and used ones back to the
// left.
class Transport {
 public:
  Transport(std::vector<std::vector<int>> later, std::vector<int64_t> supply)
      : later_(std::move(later)), left_(supply), right_(supply), from_(supply.size()) {
    for (size_t i = 0; i < supply.size(); ++i) from_[i].assign(supply.size(), 0);
  }

  int64_t MaxFlow() {
    int64_t flow = 0;
    while (FindLevels()) {
      next_.assign(left_.size(), 0);
      next_back_.assign(left_.size(), 0);
      for (int i = 0; i < static_cast<int>(left_.size()); ++i) {
        while (left_[i] > 0) {
          const int64_t pushed = Push(i, left_[i]);
          if (pushed == 0) break;
          left_[i] -= pushed;
          flow += pushed;
        }
      }
    }
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
      for (int right : later_[left]) {
        if (seen[right]) continue;
        seen[right] = true;
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

  int64_t Push(int left, int64_t amount) {
    for (size_t& at = next_[left]; at < later_[left].size(); ++at, next_back_[left] = 0) {
      const int right = later_[left][at];
      if (const int64_t pushed = std::min(amount, right_[right]); pushed > 0) {
        right_[right] -= pushed;
        from_[right][left] += pushed;
        return pushed;
      }
      for (int& back = next_back_[left]; back < static_cast<int>(left_.size()); ++back) {
        const int64_t used = from_[right][back];
        if (used == 0 || level_[back] != level_[left] + 1) continue;
        const int64_t pushed = Push(back, std::min(amount, used));
        if (pushed == 0) continue;
        from_[right][back] -= pushed;
        from_[right][left] += pushed;
        return pushed;
      }
    }
    return 0;
  }

  const std::vector<std::vector<int>> later_;
  std::vector<int64_t> left_;
  std::vector<int64_t> right_;
  std::vector<std::vector<int64_t>> from_;  // from_[right][left]: what flows
  std::vector<int> level_;
  std::vector<size_t> next_;
  std::vector<int> next_back_;
};

// For each buffer those that can take over its bytes, directly or through others.
std::vector<std::vector<int>> FindLater(const Problem& problem) {
  const int count = static_cast<int>(problem.buffers.size());
  std::vector<std::vector<bool>> later(count, std::vector<bool>(count, false));
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < count; ++j) {
      later[i][j] = problem.buffers[i].upper <= problem.buffers[j].lower;
    }
  }
  for (const auto& [a, b] : problem.parallel) later[a][b] = later[b][a] = false;
  // From the last to the first: what follows a buffer is complete before it is handed on.
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return problem.buffers[a].lower > problem.buffers[b].lower; });
  std::vector<std::vector<int>> lists(count);
  for (int i : order) {
    for (int j = 0; j < count; ++j) {
      if (!later[i][j]) continue;
      for (int k : lists[j]) later[i][k] = true;
    }
    for (int j = 0; j < count; ++j) {
      if (later[i][j]) lists[i].push_back(j);
    }
  }
  return lists;
}

}  // namespace

int64_t LowerBound(const Problem& problem) {
  const int64_t live = LiveLowerBound(problem);
  if (problem.parallel.empty() || problem.buffers.size() > kMaxAntichainBuffers) return live;
  std::vector<int64_t> sizes;
  for (const Buffer& buffer : problem.buffers) sizes.push_back(buffer.size);
  const int64_t sum = SumOfSizes(problem);
  return std::max(live, sum - Transport(FindLater(problem), std::move(sizes)).MaxFlow());
}

}  // namespace npubank

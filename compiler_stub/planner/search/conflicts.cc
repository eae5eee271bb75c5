#include "npubank/compiler_stub/planner/search/conflicts.h"

#include <algorithm>
#include <numeric>

namespace npubank {

Conflicts FindConflicts(const Problem& problem) {
  const std::vector<Buffer>& buffers = problem.buffers;
  Conflicts conflicts(buffers.size());
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return buffers[a].lower < buffers[b].lower; });
  std::vector<int> alive;
  for (int i : order) {
    if (buffers[i].size == 0) continue;
    alive.erase(std::remove_if(alive.begin(), alive.end(),
                               [&](int j) { return buffers[j].upper <= buffers[i].lower; }),
                alive.end());
    for (int j : alive) {
      conflicts[i].push_back(j);
      conflicts[j].push_back(i);
    }
    alive.push_back(i);
  }
  for (const auto& [a, b] : problem.parallel) {
    if (buffers[a].size == 0 || buffers[b].size == 0) continue;
    conflicts[a].push_back(b);
    conflicts[b].push_back(a);
  }
  for (std::vector<int>& others : conflicts) {
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
  }
  return conflicts;
}

std::vector<std::vector<int>> IndependentParts(const Conflicts& conflicts) {
  std::vector<std::vector<int>> parts;
  std::vector<bool> seen(conflicts.size(), false);
  for (size_t start = 0; start < conflicts.size(); ++start) {
    if (seen[start]) continue;
    std::vector<int> part = {static_cast<int>(start)};
    seen[start] = true;
    for (size_t next = 0; next < part.size(); ++next) {
      for (int other : conflicts[part[next]]) {
        if (seen[other]) continue;
        seen[other] = true;
        part.push_back(other);
      }
    }
    std::sort(part.begin(), part.end());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace npubank

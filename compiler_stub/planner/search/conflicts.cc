#include "npubank/compiler_stub/planner/search/conflicts.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace npubank {
namespace {

// Numbers in sets that are joined two by two; a set goes by its lowest number.
class Sets {
 public:
  explicit Sets(size_t numbers) : up_(numbers), count_(numbers) {
    std::iota(up_.begin(), up_.end(), 0);
  }

  size_t count() const { return count_; }

  int Find(int number) {
    while (up_[number] != number) number = up_[number] = up_[up_[number]];
    return number;
  }
  void Join(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return;
    up_[std::max(a, b)] = std::min(a, b);
    --count_;
  }

 private:
  std::vector<int> up_;
  size_t count_;
};

}  // namespace

std::vector<std::vector<int>> IndependentParts(const Problem& problem) {
  const std::vector<Buffer>& buffers = problem.buffers;
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(buffers.size()); ++i) {
    if (buffers[i].size > 0) order.push_back(i);
  }
  Sets sets(buffers.size());
  for (int i : order) {
    if (sets.count() == 1) break;
    problem.parallel.ForEach(i, [&](int other) {
      if (other > i && buffers[other].size > 0) sets.Join(i, other);
    });
  }
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return buffers[a].lower < buffers[b].lower; });
  int last = -1;  // of those begun, the one that lives longest
  for (int i : order) {
    if (last >= 0 && buffers[i].lower < buffers[last].upper) sets.Join(i, last);
    if (last < 0 || buffers[i].upper > buffers[last].upper) last = i;
  }
  std::sort(order.begin(), order.end());
  std::vector<std::vector<int>> parts;
  std::vector<int> part_of(buffers.size());  // of the lowest number of each
  for (int i : order) {
    const int lowest = sets.Find(i);
    if (lowest == i) {
      part_of[i] = static_cast<int>(parts.size());
      parts.emplace_back();
    }
    parts[part_of[lowest]].push_back(i);
  }
  return parts;
}

}  // namespace npubank

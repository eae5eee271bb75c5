#include "npubank/compiler_stub/planner/search/heuristics.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

struct Taken {
  int64_t begin;
  int64_t end;
};

int64_t AlignUp(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

// The offset for `buffer` among `taken`, which is sorted by begin.
int64_t FindGap(const Buffer& buffer, absl::Span<const Taken> taken, Fit fit) {
  int64_t top = 0;
  int64_t best = -1;
  int64_t best_room = std::numeric_limits<int64_t>::max();
  for (const Taken& other : taken) {
    const int64_t start = AlignUp(top, buffer.alignment);
    const int64_t room = other.begin - start;
    if (room >= buffer.size && room < best_room) {
      best = start;
      best_room = room;
      if (fit == Fit::kFirst) return best;
    }
    top = std::max(top, other.end);
  }
  return best >= 0 ? best : AlignUp(top, buffer.alignment);
}

// What an order sorts by, largest first.
using Key = double (*)(const Buffer& buffer, double pressure);

struct Order {
  const char* name;
  Key key;
};

double Length(const Buffer& b) { return static_cast<double>(b.upper - b.lower); }
double Size(const Buffer& b) { return static_cast<double>(b.size); }

constexpr std::array<Order, 6> kOrders = {{
    {"size", [](const Buffer& b, double) { return Size(b); }},
    {"area", [](const Buffer& b, double) { return Size(b) * Length(b); }},
    {"life", [](const Buffer& b, double) { return Length(b); }},
    {"pressure", [](const Buffer&, double pressure) { return pressure; }},
    {"pressure times size", [](const Buffer& b, double pressure) { return pressure * Size(b); }},
    {"birth", [](const Buffer& b, double) { return -static_cast<double>(b.lower); }},
}};

// Bytes of each buffer and of all that must not overlap it: how hard it is to place late.
std::vector<double> Pressures(const Problem& problem, const Conflicts& conflicts) {
  std::vector<double> pressures;
  pressures.reserve(conflicts.size());
  for (size_t i = 0; i < conflicts.size(); ++i) {
    double sum = Size(problem.buffers[i]);
    for (int other : conflicts[i]) sum += Size(problem.buffers[other]);
    pressures.push_back(sum);
  }
  return pressures;
}

// Buffers by `key`, largest first; then by size, by length, by number, so that the order is total.
std::vector<int> SortedBy(const Problem& problem, absl::Span<const double> pressures, Key key) {
  std::vector<double> keys;
  keys.reserve(problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    keys.push_back(key(problem.buffers[i], pressures[i]));
  }
  std::vector<int> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    if (keys[a] != keys[b]) return keys[a] > keys[b];
    const Buffer& x = problem.buffers[a];
    const Buffer& y = problem.buffers[b];
    if (x.size != y.size) return x.size > y.size;
    if (Length(x) != Length(y)) return Length(x) > Length(y);
    return a < b;
  });
  return order;
}

}  // namespace

Layout PlaceInOrder(const Problem& problem, const Conflicts& conflicts, absl::Span<const int> order,
                    Fit fit) {
  Layout layout;
  layout.offsets.assign(problem.buffers.size(), -1);
  std::vector<Taken> taken;
  for (int i : order) {
    const Buffer& buffer = problem.buffers[i];
    taken.clear();
    for (int other : conflicts[i]) {
      const int64_t offset = layout.offsets[other];
      if (offset >= 0) taken.push_back({offset, offset + problem.buffers[other].size});
    }
    std::sort(taken.begin(), taken.end(),
              [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
    layout.offsets[i] = FindGap(buffer, taken, fit);
    layout.bytes = std::max(layout.bytes, layout.offsets[i] + buffer.size);
  }
  return layout;
}

Layout GreedyBySize(const Problem& problem, const Conflicts& conflicts) {
  const std::vector<double> pressures(problem.buffers.size(), 0);
  return PlaceInOrder(problem, conflicts, SortedBy(problem, pressures, kOrders[0].key), Fit::kBest);
}

NamedLayout BestHeuristic(const Problem& problem, const Conflicts& conflicts, int64_t enough) {
  const std::vector<double> pressures = Pressures(problem, conflicts);
  NamedLayout best;
  best.layout.bytes = std::numeric_limits<int64_t>::max();
  for (const Order& order : kOrders) {
    const std::vector<int> sorted = SortedBy(problem, pressures, order.key);
    for (Fit fit : {Fit::kBest, Fit::kFirst}) {
      Layout layout = PlaceInOrder(problem, conflicts, sorted, fit);
      if (layout.bytes >= best.layout.bytes) continue;
      best = {absl::StrCat(order.name, fit == Fit::kBest ? ", best fit" : ", first fit"),
              std::move(layout)};
      if (best.layout.bytes <= enough) return best;
    }
  }
  return best;
}

}  // namespace npubank

#include "npubank/compiler_stub/planner/search/heuristics.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"
#include "npubank/compiler_stub/planner/search/sweep.h"
#include "npubank/lazy_tensor/base/align.h"

namespace npubank {
namespace {

// A buffer that has its place.
struct Placed {
  uint64_t begin;
  uint64_t end;
  int64_t lower;  // of its life
  int64_t upper;
  int buffer;
};

constexpr uint64_t kNoGap = std::numeric_limits<uint64_t>::max();

// The offset for buffer `number` among `placed`, which is sorted by begin.
uint64_t FindGap(const Problem& problem, int number, absl::Span<const Placed> placed, Fit fit) {
  const Buffer& buffer = problem.buffers[number];
  uint64_t top = 0;
  uint64_t best = kNoGap;
  uint64_t best_room = kNoGap;
  for (const Placed& other : placed) {
    const bool alive = other.lower < buffer.upper && buffer.lower < other.upper;
    if (!alive && !problem.parallel.Contains(number, other.buffer)) continue;
    const uint64_t start = AlignUp(top, buffer.alignment);
    // No room where `start` lies behind the beginning.
    if (const uint64_t room = other.begin - start;
        start <= other.begin && room >= buffer.size && room < best_room) {
      best = start;
      best_room = room;
      if (fit == Fit::kFirst) return best;
    }
    top = std::max(top, other.end);
  }
  return best != kNoGap ? best : AlignUp(top, buffer.alignment);
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

// Sums of the sizes of all buffers up to each, in the order of `when`.
class SizesUntil {
 public:
  SizesUntil(const Problem& problem, int64_t Buffer::*when) {
    for (const Buffer& buffer : problem.buffers) sums_.emplace_back(buffer.*when, buffer.size);
    std::sort(sums_.begin(), sums_.end());
    uint64_t sum = 0;
    for (auto& [moment, size] : sums_) size = sum += size;
  }
  // Of those whose moment is at most `moment`.
  uint64_t operator()(int64_t moment) const {
    const auto after = std::upper_bound(sums_.begin(), sums_.end(),
                                        std::pair(moment, std::numeric_limits<uint64_t>::max()));
    return after == sums_.begin() ? 0 : std::prev(after)->second;
  }

 private:
  std::vector<std::pair<int64_t, uint64_t>> sums_;
};

// Bytes of each buffer and of all that must not overlap it: how hard it is to place late.
std::vector<double> Pressures(const Problem& problem) {
  const SizesUntil born(problem, &Buffer::lower);
  const SizesUntil dead(problem, &Buffer::upper);
  std::vector<double> pressures;
  for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i) {
    const Buffer& buffer = problem.buffers[i];
    // Alive together with it are all that begin before its end, but for those that end before.
    uint64_t sum = born(buffer.upper - 1) - dead(buffer.lower);
    problem.parallel.ForEach(i, [&](int other) {
      if (!LiveTogether(buffer, problem.buffers[other])) sum += problem.buffers[other].size;
    });
    pressures.push_back(static_cast<double>(sum));
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

// Each above the one before: a place for all, whoever runs side by side.
Layout PileUp(const Problem& problem) {
  Layout layout;
  for (const Buffer& buffer : problem.buffers) {
    layout.offsets.push_back(AlignUp(layout.bytes, buffer.alignment));
    layout.bytes = layout.offsets.back() + buffer.size;
  }
  return layout;
}

NamedLayout Quickest(const Problem& problem) {
  if (problem.parallel.buffers() > 0) return {"one above the other", PileUp(problem)};
  return {"birth, best fit", SweepByBirth(problem)};
}

}  // namespace

std::optional<Layout> PlaceInOrder(const Problem& problem, absl::Span<const int> order, Fit fit,
                                   TimeLimit& limit) {
  Layout layout;
  layout.offsets.assign(problem.buffers.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (int i : order) {
    if (limit.Reached(static_cast<int64_t>(placed.size()))) return std::nullopt;
    const Buffer& buffer = problem.buffers[i];
    const uint64_t begin = FindGap(problem, i, placed, fit);
    const uint64_t end = begin + buffer.size;
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), begin,
                         [](uint64_t offset, const Placed& other) { return offset < other.begin; });
    placed.insert(at, {begin, end, buffer.lower, buffer.upper, i});
    layout.offsets[i] = begin;
    layout.bytes = std::max(layout.bytes, end);
  }
  return layout;
}

std::vector<int> OrderOfBirth(const Problem& problem) {
  return SortedBy(problem, std::vector<double>(problem.buffers.size(), 0), kOrders.back().key);
}

Layout GreedyBySize(const Problem& problem) {
  const std::vector<double> pressures(problem.buffers.size(), 0);
  std::vector<int> order = SortedBy(problem, pressures, kOrders.front().key);
  std::erase_if(order, [&](int i) { return problem.buffers[i].size == 0; });
  TimeLimit none(absl::InfiniteDuration(), nullptr);
  return *PlaceInOrder(problem, order, Fit::kBest, none);
}

NamedLayout BestHeuristic(const Problem& problem, uint64_t enough, int64_t* looks,
                          TimeLimit& limit) {
  const auto count = static_cast<int64_t>(problem.buffers.size());
  const int64_t most_looks = count * (count - 1) / 2;
  if (most_looks > *looks || limit.Reached(0)) return Quickest(problem);
  NamedLayout best;
  best.layout.bytes = std::numeric_limits<uint64_t>::max();
  const std::vector<double> pressures = Pressures(problem);
  for (const Order& order : kOrders) {
    const std::vector<int> sorted = SortedBy(problem, pressures, order.key);
    for (Fit fit : {Fit::kBest, Fit::kFirst}) {
      std::optional<Layout> layout;
      if (most_looks <= *looks) layout = PlaceInOrder(problem, sorted, fit, limit);
      if (!layout.has_value()) {
        NamedLayout quickest = Quickest(problem);
        return quickest.layout.bytes < best.layout.bytes ? quickest : best;
      }
      *looks -= most_looks;
      if (layout->bytes >= best.layout.bytes) continue;
      best = {absl::StrCat(order.name, fit == Fit::kBest ? ", best fit" : ", first fit"),
              *std::move(layout)};
      if (best.layout.bytes <= enough) return best;
    }
  }
  return best;
}

}  // namespace npubank

#include "npubank/tools/tokenizers/merge_pairs.h"

#include <queue>

namespace npubank {
namespace {

struct Candidate {
  double order;
  size_t left;
  size_t length;  // of both: tells whether the pair is still what it was
  int32_t id;
  bool operator<(const Candidate& other) const {
    return order != other.order ? order > other.order : left > other.left;
  }
};

// The neighbours of each symbol; a symbol that was merged into the one before it has length 0.
struct Links {
  explicit Links(size_t count) : previous(count), next(count) {
    for (size_t i = 0; i < count; ++i) {
      previous[i] = i == 0 ? kEnd : i - 1;
      next[i] = i + 1 == count ? kEnd : i + 1;
    }
  }
  static constexpr size_t kEnd = SIZE_MAX;
  std::vector<size_t> previous, next;
};

}  // namespace

void MergePairs(std::vector<Symbol>& symbols,
                absl::FunctionRef<std::optional<Merge>(const Symbol&, const Symbol&)> rule) {
  Links links(symbols.size());
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](size_t left) {
    if (left == Links::kEnd || links.next[left] == Links::kEnd) return;
    const Symbol& a = symbols[left];
    const Symbol& b = symbols[links.next[left]];
    const std::optional<Merge> merge = rule(a, b);
    if (merge) candidates.push({merge->order, left, a.length + b.length, merge->id});
  };
  for (size_t i = 0; i < symbols.size(); ++i) consider(i);

  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& a = symbols[best.left];
    const size_t right = links.next[best.left];
    if (a.length == 0 || right == Links::kEnd) continue;
    if (a.length + symbols[right].length != best.length) continue;
    symbols[right].length = 0;
    links.next[best.left] = links.next[right];
    if (links.next[right] != Links::kEnd) links.previous[links.next[right]] = best.left;
    a.length = best.length;
    a.id = best.id;
    consider(links.previous[best.left]);
    consider(best.left);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
}

}  // namespace npubank

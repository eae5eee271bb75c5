#include "npubank/runtime/memory/page_ranges.h"

#include <algorithm>
#include <iterator>

namespace npubank {

void PageRanges::Add(uint64_t offset, uint64_t bytes) {
  PageRange added = PageRange::Around(offset, bytes);
  auto next = ends_.upper_bound(added.begin);
  if (next != ends_.begin() && std::prev(next)->second >= added.begin) --next;
  while (next != ends_.end() && next->first <= added.end) {
    added.begin = std::min(added.begin, next->first);
    added.end = std::max(added.end, next->second);
    next = ends_.erase(next);
  }
  ends_.emplace(added.begin, added.end);
}

std::optional<PageRange> PageRanges::Find(uint64_t offset, uint64_t bytes) const {
  const PageRange wanted = PageRange::Around(offset, bytes);
  const auto next = ends_.upper_bound(wanted.begin);
  if (next == ends_.begin()) return std::nullopt;
  const PageRange found = {std::prev(next)->first, std::prev(next)->second};
  if (!found.Contains(wanted)) return std::nullopt;
  return found;
}

}  // namespace npubank

#include "npubank/bank/books/content_index.h"

#include "absl/algorithm/container.h"

namespace npubank {

void ContentIndex::Add(Entry& entry) {
  if (entry.content.has_value()) entries_[entry.content->low].push_back(&entry);
}

void ContentIndex::Remove(Entry& entry) {
  if (!entry.content.has_value()) return;
  const auto found = entries_.find(entry.content->low);
  std::erase(found->second, &entry);
  if (found->second.empty()) entries_.erase(found);
  entry.content.reset();
}

std::vector<std::shared_ptr<DeviceAllocation>> ContentIndex::NotCompared(
    const std::optional<Digest>& content, const std::shared_ptr<DeviceAllocation>& memory,
    absl::Span<const std::shared_ptr<DeviceAllocation>> others) const {
  std::vector<std::shared_ptr<DeviceAllocation>> not_compared;
  if (!content.has_value()) return not_compared;
  const auto found = entries_.find(content->low);
  if (found == entries_.end()) return not_compared;
  for (const Entry* entry : found->second) {
    if (entry->content != content) continue;
    if (entry->memory == memory) return {};  // it shares already
    if (!absl::c_linear_search(others, entry->memory)) not_compared.push_back(entry->memory);
  }
  return not_compared;
}

}  // namespace npubank

#include "npubank/bank/books/budget/tensor_group.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"

namespace npubank {

bool TensorGroup::All(absl::FunctionRef<bool(const Entry&)> holds) const {
  return absl::c_all_of(entries, [&](const Entry* entry) { return holds(*entry); });
}

bool TensorGroup::leased() const {
  return !All([](const Entry& entry) { return entry.leases == 0; });
}

bool TensorGroup::unowned() const {
  return All([](const Entry& entry) { return entry.owners.empty(); });
}

bool TensorGroup::CanComeBack() const {
  return All([](const Entry& entry) { return entry.CanComeBack(); });
}

bool TensorGroup::HasOwnerAmong(absl::Span<OwnerRecord* const> records) const {
  return !All([&](const Entry& entry) {
    return absl::c_none_of(entry.owners, [&](const Ownership& of) {
      return absl::c_linear_search(records, of.owner);
    });
  });
}

bool TensorGroup::HasOwnerAwake(absl::Span<OwnerRecord* const> sleepers) const {
  return !All([&](const Entry& entry) {
    return absl::c_all_of(entry.owners, [&](const Ownership& of) {
      return of.owner->asleep || absl::c_linear_search(sleepers, of.owner);
    });
  });
}

std::vector<TensorGroup> GroupsOf(const Books& books) {
  std::vector<Entry*> ordered;
  for (const auto& [uid, entry] : books.entries) {
    if (entry->memory != nullptr) ordered.push_back(entry.get());
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const Entry* a, const Entry* b) { return a->sequence < b->sequence; });
  std::vector<TensorGroup> groups;
  absl::flat_hash_map<const DeviceAllocation*, size_t> group_of;
  for (Entry* entry : ordered) {
    const auto [found, is_new] = group_of.emplace(entry->memory.get(), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].entries.push_back(entry);
  }
  return groups;
}

}  // namespace npubank

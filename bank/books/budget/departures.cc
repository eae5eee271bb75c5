#include "npubank/bank/books/budget/departures.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/books/budget/eviction.h"

namespace npubank {

std::vector<TensorGroup> Departures::Idle() const {
  std::vector<TensorGroup> groups = GroupsOf(*books_);
  std::erase_if(groups,
                [](const TensorGroup& group) { return group.leased() || !group.CanComeBack(); });
  return groups;
}

uint64_t Departures::EvictableBytes() const {
  uint64_t bytes = 0;
  MutexLock lock(books_->mutex);
  for (const TensorGroup& group : Idle()) bytes += group.bytes();
  return bytes;
}

bool Departures::EvictFor(uint64_t bytes) const {
  if (bytes == 0) return true;
  Books::Garbage garbage(*books_);
  MutexLock lock(books_->mutex);
  std::vector<TensorGroup> groups = Idle();
  std::vector<EvictionCandidate> candidates;
  for (const TensorGroup& group : groups) {
    EvictionCandidate& candidate = candidates.emplace_back();
    candidate.bytes = group.bytes();
    candidate.reclaimable = group.unowned();
    for (const Entry* entry : group.entries) {
      candidate.last_used = std::max(candidate.last_used, entry->last_used);
      candidate.seconds_to_return += entry->evaluation_seconds;
    }
  }
  const std::vector<size_t> victims = ChooseVictims(candidates, bytes);
  for (const size_t victim : victims) {
    for (Entry* entry : groups[victim].entries) books_->Evict(*entry, garbage);
  }
  return !victims.empty();
}

uint64_t Departures::Trim(std::chrono::steady_clock::duration idle_for) const {
  const auto latest = std::chrono::steady_clock::now() - idle_for;
  const auto leaves = [latest](const Entry& entry) {
    return entry.owners.empty() && entry.leases == 0 && entry.idle_since <= latest;
  };
  Books::Garbage garbage(*books_);
  uint64_t bytes = 0;
  MutexLock lock(books_->mutex);
  for (const TensorGroup& group : GroupsOf(*books_)) {
    if (group.All(leaves)) bytes += group.bytes();
    for (Entry* entry : group.entries) {
      if (leaves(*entry)) books_->Forget(*entry, garbage);
    }
  }
  return bytes;
}

uint64_t Departures::count() const {
  MutexLock lock(books_->mutex);
  return books_->departures;
}

bool Departures::Await(uint64_t seen) const {
  MutexLock lock(books_->mutex);
  if (books_->departures == seen && books_->leaving > 0) ++books_->counters.waits;
  while (books_->departures == seen && books_->leaving > 0) books_->departed.Wait(books_->mutex);
  return books_->departures != seen;
}

std::string Departures::LargestHolders() const {
  constexpr size_t kNamed = 3;
  std::vector<std::pair<uint64_t, std::string>> holders;
  {
    MutexLock lock(books_->mutex);
    for (const auto& [uid, entry] : books_->entries) {
      if (entry->memory == nullptr) continue;
      const char* why = entry->leases > 0       ? "leased"
                        : entry->owners.empty() ? "unowned"
                        : entry->CanComeBack()  ? "idle"
                                                : "cannot be brought back";
      holders.emplace_back(entry->memory->reserved_bytes(),
                           absl::StrCat("'", entry->name, "' ", entry->memory->reserved_bytes(),
                                        " bytes (", why, ")"));
    }
  }
  std::sort(holders.begin(), holders.end(), std::greater<>());
  if (holders.empty()) return "no tensor is on the device";
  if (holders.size() > kNamed) holders.resize(kNamed);
  return absl::StrCat("the largest on the device: ",
                      absl::StrJoin(holders, ", ", [](std::string* out, const auto& holder) {
                        out->append(holder.second);
                      }));
}

}  // namespace npubank

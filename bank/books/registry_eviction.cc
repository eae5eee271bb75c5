// What leaves the device, and how sleepers are put down. The rest of the registry is in
// registry.cc.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/books/eviction.h"
#include "npubank/bank/books/registry.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

// They leave together or not at all: a part of them would give nothing back.
struct Registry::Group {
  std::vector<Entry*> entries;

  uint64_t bytes() const { return entries.front()->memory->reserved_bytes(); }
  bool All(absl::FunctionRef<bool(const Entry&)> holds) const {
    return std::all_of(entries.begin(), entries.end(),
                       [&](const Entry* entry) { return holds(*entry); });
  }
  bool leased() const {
    return !All([](const Entry& entry) { return entry.leases == 0; });
  }
  bool imported() const { return entries.front()->memory->strategy() == "imported"; }
  bool unowned() const {
    return All([](const Entry& entry) { return entry.owners.empty(); });
  }
  bool HasOwnerAmong(absl::Span<OwnerRecord* const> records) const {
    return !All([&](const Entry& entry) {
      return absl::c_none_of(entry.owners, [&](const Ownership& of) {
        return absl::c_linear_search(records, of.owner);
      });
    });
  }
  // Whether somebody is awake who owns any of it; `sleepers` are taken to be asleep.
  bool HasOwnerAwake(absl::Span<OwnerRecord* const> sleepers) const {
    return !All([&](const Entry& entry) {
      return absl::c_all_of(entry.owners, [&](const Ownership& of) {
        return of.owner->asleep || absl::c_linear_search(sleepers, of.owner);
      });
    });
  }
};

std::vector<Registry::Group> Registry::Groups() const {
  std::vector<Entry*> ordered;
  for (const auto& [uid, entry] : entries_) {
    if (entry->memory != nullptr) ordered.push_back(entry.get());
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const Entry* a, const Entry* b) { return a->sequence < b->sequence; });
  std::vector<Group> groups;
  absl::flat_hash_map<const DeviceAllocation*, size_t> group_of;
  for (Entry* entry : ordered) {
    const auto [found, is_new] = group_of.emplace(entry->memory.get(), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].entries.push_back(entry);
  }
  return groups;
}

// Every owner must be able to bring it back, because any of them may be the last that is left.
bool Registry::CanComeBack(const Entry& entry) {
  return entry.owners.empty() || entry.host_copy != nullptr || CanComeBackWithoutCopy(entry);
}

bool Registry::CanComeBackWithoutCopy(const Entry& entry) {
  return absl::c_all_of(entry.owners, [](const Ownership& of) { return bool{of.way_back}; });
}

void Registry::Evict(Entry& entry, Garbage& garbage) {
  ++counters_.evictions;
  if (entry.owners.empty()) {
    Forget(entry, garbage);
    return;
  }
  LeaveContent(entry);
  entry.state = NextResidency(entry.state, ResidencyEvent::kEvicted).state;
  Leave(std::move(entry.memory), garbage);
}

void Registry::Leave(std::shared_ptr<DeviceAllocation> memory, Garbage& garbage) {
  if (memory == nullptr) return;
  garbage.memory.push_back(std::move(memory));
  if (!std::exchange(garbage.announced, true)) ++leaving_;
}

Registry::Garbage::~Garbage() {
  entries.clear();
  memory.clear();
  if (!announced) return;
  MutexLock lock(registry.mutex_);
  --registry.leaving_;
  ++registry.departures_;
  registry.departed_.NotifyAll();
}

uint64_t Registry::departures() const {
  MutexLock lock(mutex_);
  return departures_;
}

bool Registry::AwaitDeparture(uint64_t seen) {
  MutexLock lock(mutex_);
  if (departures_ == seen && leaving_ > 0) ++counters_.waits;
  while (departures_ == seen && leaving_ > 0) departed_.Wait(mutex_);
  return departures_ != seen;
}

std::vector<Registry::Group> Registry::Idle() const {
  std::vector<Group> groups = Groups();
  std::erase_if(groups,
                [](const Group& group) { return group.leased() || !group.All(CanComeBack); });
  return groups;
}

uint64_t Registry::EvictableBytes() const {
  uint64_t bytes = 0;
  MutexLock lock(mutex_);
  for (const Group& group : Idle()) bytes += group.bytes();
  return bytes;
}

bool Registry::EvictFor(uint64_t bytes) {
  if (bytes == 0) return true;
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  std::vector<Group> groups = Idle();
  std::vector<EvictionCandidate> candidates;
  for (const Group& group : groups) {
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
    for (Entry* entry : groups[victim].entries) Evict(*entry, garbage);
  }
  return !victims.empty();
}

uint64_t Registry::Trim() {
  Garbage garbage(*this);
  uint64_t bytes = 0;
  MutexLock lock(mutex_);
  for (const Group& group : Groups()) {
    if (group.unowned() && !group.leased()) bytes += group.bytes();
    for (Entry* entry : group.entries) {
      if (entry->owners.empty() && entry->leases == 0) Forget(*entry, garbage);
    }
  }
  return bytes;
}

absl::StatusOr<std::vector<OwnerRecord*>> Registry::FindOwners(
    absl::Span<const uint64_t> ids) const {
  std::vector<OwnerRecord*> records;
  for (const uint64_t id : ids) {
    NPUBANK_ASSIGN_OR_RETURN(records.emplace_back(), FindOwner(id));
  }
  return records;
}

absl::StatusOr<std::vector<LeavingBytes>> Registry::LeavingWith(absl::Span<const uint64_t> owners) {
  std::vector<LeavingBytes> leaving;
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, FindOwners(owners));
  for (const Group& group : Groups()) {
    if (!group.HasOwnerAmong(records) || group.HasOwnerAwake(records) || group.leased() ||
        group.All([](const Entry& entry) { return entry.host_copy != nullptr; })) {
      continue;
    }
    // A copy would come back as memory of the device; the file is imported again.
    if (group.imported() && group.All(CanComeBack)) continue;
    LeavingBytes& bytes = leaving.emplace_back();
    for (const Entry* entry : group.entries) bytes.tensors.push_back(entry->uid);
    bytes.name = group.entries.front()->name;
    bytes.lease = Pin(*group.entries.front());
  }
  return leaving;
}

absl::StatusOr<SleepReport> Registry::PutToSleep(absl::Span<const uint64_t> owners,
                                                 HostCopies copies) {
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, FindOwners(owners));
  for (OwnerRecord* record : records) {
    record->asleep = true;
    record->waking = false;
  }
  return EvictSleeping(records, copies, garbage);
}

SleepReport Registry::EvictSleeping(absl::Span<OwnerRecord* const> sleepers, HostCopies& copies,
                                    Garbage& garbage) {
  SleepReport report;
  for (const Group& group : Groups()) {
    if (!group.HasOwnerAmong(sleepers)) continue;
    if (group.HasOwnerAwake({})) {
      report.bytes_of_others_awake += group.bytes();
    } else if (group.leased()) {
      report.bytes_leased += group.bytes();
    } else if (!group.All([&](const Entry& entry) {
                 return copies.contains(entry.uid.value) || CanComeBack(entry);
               })) {
      report.bytes_without_way_back += group.bytes();
    } else {
      report.bytes_given_back += group.bytes();
      for (Entry* entry : group.entries) {
        const auto copy = copies.find(entry->uid.value);
        if (copy != copies.end()) entry->host_copy.swap(copy->second);
        Evict(*entry, garbage);
      }
    }
  }
  return report;
}

absl::Status Registry::BeginLoad(absl::Span<const uint64_t> owners) {
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, FindOwners(owners));
  ++clock_;
  for (OwnerRecord* record : records) {
    ++record->loads;
    if (std::exchange(record->asleep, false)) record->waking = true;
  }
  return absl::OkStatus();
}

void Registry::EndLoad(absl::Span<const uint64_t> owners, bool succeeded) {
  HostCopies none;
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  std::vector<OwnerRecord*> ended;
  for (const uint64_t id : owners) {
    const auto found = owners_.find(id);
    if (found == owners_.end()) continue;  // released meanwhile
    OwnerRecord& record = *found->second;
    --record.loads;
    if (record.loads > 0 && !succeeded) continue;  // another decides
    record.asleep |= record.waking && !succeeded;
    record.waking = false;
    ended.push_back(&record);
  }
  if (!succeeded) EvictSleeping(ended, none, garbage);
  for (const OwnerRecord* record : ended) {
    for (Entry* entry : record->tensors) SettleCopy(*entry, garbage);
  }
}

absl::StatusOr<uint64_t> Registry::DropCopies(absl::Span<const uint64_t> owners) {
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, FindOwners(owners));
  absl::flat_hash_set<const std::byte*> dropped;  // equal contents have one copy
  uint64_t bytes = 0;
  for (const OwnerRecord* record : records) {
    for (Entry* entry : record->tensors) {
      if (entry->host_copy == nullptr || !CanComeBackWithoutCopy(*entry)) continue;
      if (dropped.insert(entry->host_copy.get()).second) bytes += entry->type.bytes();
      garbage.copies.push_back(std::move(entry->host_copy));
    }
  }
  return bytes;
}

void Registry::SettleCopy(Entry& entry, Garbage& garbage) {
  if (entry.host_copy == nullptr || entry.state != Residency::kResident) return;
  const bool asleep = absl::c_all_of(
      entry.owners, [](const Ownership& of) { return of.owner->asleep || of.owner->waking; });
  if (asleep && !entry.owners.empty()) return;
  garbage.copies.push_back(std::move(entry.host_copy));
}

std::string Registry::LargestHolders() const {
  constexpr size_t kNamed = 3;
  std::vector<std::pair<uint64_t, std::string>> holders;
  {
    MutexLock lock(mutex_);
    for (const auto& [uid, entry] : entries_) {
      if (entry->memory == nullptr) continue;
      const char* why = entry->leases > 0       ? "leased"
                        : entry->owners.empty() ? "unowned"
                        : CanComeBack(*entry)   ? "idle"
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

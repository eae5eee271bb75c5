// What leaves the device, and how sleepers are put down. The rest of the registry is in
// registry.cc.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bank/bank.h"
#include "bank/eviction.h"
#include "bank/registry.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

// Tensors that share one allocation leave together or not at all.
struct Group {
  EvictionCandidate candidate;
  std::vector<Entry*> entries;
  bool may_leave = true;
};

}  // namespace

// Every owner must be able to bring it back, because any of them may be the last that is left.
bool Registry::CanComeBack(const Entry& entry) {
  return !entry.encoded.empty() &&
         std::all_of(entry.owners.begin(), entry.owners.end(),
                     [](const OwnerRecord* owner) { return owner->resolver != nullptr; });
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

void Registry::BeginLoad() {
  MutexLock lock(mutex_);
  ++clock_;
}

bool Registry::EvictFor(uint64_t bytes) {
  if (bytes == 0) return true;
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  std::vector<Entry*> ordered;
  for (const auto& [uid, entry] : entries_) {
    if (entry->memory != nullptr) ordered.push_back(entry.get());
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const Entry* a, const Entry* b) { return a->sequence < b->sequence; });
  std::vector<Group> groups;
  std::map<const DeviceAllocation*, size_t> group_of;
  for (Entry* entry : ordered) {
    const auto [found, is_new] = group_of.emplace(entry->memory.get(), groups.size());
    if (is_new) groups.emplace_back().candidate.reclaimable = true;
    Group& group = groups[found->second];
    group.entries.push_back(entry);
    group.may_leave &= entry->leases == 0 && (entry->owners.empty() || CanComeBack(*entry));
    group.candidate.bytes = entry->memory->reserved_bytes();
    group.candidate.reclaimable &= entry->owners.empty();
    group.candidate.last_used = std::max(group.candidate.last_used, entry->last_used);
    group.candidate.seconds_to_return += entry->evaluation_seconds;
  }
  std::erase_if(groups, [](const Group& group) { return !group.may_leave; });
  std::vector<EvictionCandidate> candidates;
  for (const Group& group : groups) candidates.push_back(group.candidate);
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
  std::vector<Entry*> unowned;
  for (const auto& [uid, entry] : entries_) {
    if (entry->owners.empty() && entry->leases == 0 && entry->state == Residency::kResident) {
      unowned.push_back(entry.get());
    }
  }
  for (Entry* entry : unowned) {
    if (entry->memory.use_count() == 1) bytes += entry->memory->reserved_bytes();
    Forget(*entry, garbage);
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

absl::StatusOr<std::vector<uint64_t>> Registry::WakeUp(absl::Span<const uint64_t> owners) {
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, FindOwners(owners));
  std::vector<uint64_t> slept;
  for (OwnerRecord* record : records) {
    if (std::exchange(record->asleep, false)) slept.push_back(record->id);
  }
  return slept;
}

absl::StatusOr<SleepReport> Registry::PutToSleep(absl::Span<const uint64_t> owners,
                                                 HostCopies copies) {
  SleepReport report;
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, FindOwners(owners));
  for (OwnerRecord* record : records) record->asleep = true;
  absl::flat_hash_set<const Entry*> seen;
  for (OwnerRecord* record : records) {
    for (Entry* entry : record->tensors) {
      const bool is_new = seen.insert(entry).second;
      if (!is_new || entry->state != Residency::kResident || entry->memory == nullptr) continue;
      EvictSleeping(*entry, copies, report, garbage);
    }
  }
  return report;
}

void Registry::EvictSleeping(Entry& entry, HostCopies& copies, SleepReport& report,
                             Garbage& garbage) {
  const uint64_t bytes = entry.memory->reserved_bytes();
  const auto copy = copies.find(entry.uid.value);
  if (std::any_of(entry.owners.begin(), entry.owners.end(),
                  [](const OwnerRecord* owner) { return !owner->asleep; })) {
    report.bytes_of_others_awake += bytes;
  } else if (entry.leases > 0) {
    report.bytes_leased += bytes;
  } else if (copy == copies.end() && !CanComeBack(entry)) {
    report.bytes_without_way_back += bytes;
  } else {
    if (copy != copies.end()) entry.host_copy = std::move(copy->second);
    // An allocation that other tensors share leaves with the last of them.
    if (entry.memory.use_count() == 1) report.bytes_given_back += bytes;
    Evict(entry, garbage);
  }
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

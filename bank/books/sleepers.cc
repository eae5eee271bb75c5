#include "npubank/bank/books/sleepers.h"

#include <cstddef>

#include "absl/container/flat_hash_set.h"
#include "npubank/bank/books/budget/tensor_group.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

absl::StatusOr<std::vector<LeavingBytes>> Sleepers::LeavingWith(
    absl::Span<const uint64_t> owners) const {
  std::vector<LeavingBytes> leaving;
  MutexLock lock(books_->mutex);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, books_->FindOwners(owners));
  for (const TensorGroup& group : GroupsOf(*books_)) {
    if (!group.HasOwnerAmong(records) || group.HasOwnerAwake(records) || group.leased() ||
        group.All([](const Entry& entry) { return entry.host_copy != nullptr; })) {
      continue;
    }
    // A copy would come back as memory of the device; the file is imported again.
    if (group.imported() && group.CanComeBack()) continue;
    LeavingBytes& bytes = leaving.emplace_back();
    for (const Entry* entry : group.entries) bytes.tensors.push_back(entry->uid);
    bytes.name = group.entries.front()->name;
    bytes.lease = books_->Pin(*group.entries.front());
  }
  return leaving;
}

absl::StatusOr<SleepReport> Sleepers::PutToSleep(absl::Span<const uint64_t> owners,
                                                 HostCopies copies) const {
  Books::Garbage garbage(*books_);
  MutexLock lock(books_->mutex);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, books_->FindOwners(owners));
  for (OwnerRecord* record : records) {
    record->asleep = true;
    record->waking = false;
  }
  return EvictSleeping(records, copies, garbage);
}

SleepReport Sleepers::EvictSleeping(absl::Span<OwnerRecord* const> sleepers, HostCopies& copies,
                                    Books::Garbage& garbage) const {
  SleepReport report;
  for (const TensorGroup& group : GroupsOf(*books_)) {
    if (!group.HasOwnerAmong(sleepers)) continue;
    if (group.HasOwnerAwake({})) {
      report.bytes_of_others_awake += group.bytes();
    } else if (group.leased()) {
      report.bytes_leased += group.bytes();
    } else if (!group.All([&](const Entry& entry) {
                 return copies.contains(entry.uid.value) || entry.CanComeBack();
               })) {
      report.bytes_without_way_back += group.bytes();
    } else {
      report.bytes_given_back += group.bytes();
      for (Entry* entry : group.entries) {
        const auto copy = copies.find(entry->uid.value);
        if (copy != copies.end()) entry->host_copy.swap(copy->second);
        books_->Evict(*entry, garbage);
      }
    }
  }
  return report;
}

absl::Status Sleepers::BeginLoad(absl::Span<const uint64_t> owners) const {
  MutexLock lock(books_->mutex);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, books_->FindOwners(owners));
  ++books_->clock;
  for (OwnerRecord* record : records) {
    ++record->loads;
    if (std::exchange(record->asleep, false)) record->waking = true;
  }
  return absl::OkStatus();
}

void Sleepers::EndLoad(absl::Span<const uint64_t> owners, bool succeeded) const {
  HostCopies none;
  Books::Garbage garbage(*books_);
  MutexLock lock(books_->mutex);
  std::vector<OwnerRecord*> ended;
  for (const uint64_t id : owners) {
    const auto found = books_->owners.find(id);
    if (found == books_->owners.end()) continue;  // released meanwhile
    OwnerRecord& record = *found->second;
    --record.loads;
    if (record.loads > 0 && !succeeded) continue;  // another decides
    record.asleep |= record.waking && !succeeded;
    record.waking = false;
    ended.push_back(&record);
  }
  if (!succeeded) EvictSleeping(ended, none, garbage);
  for (const OwnerRecord* record : ended) {
    for (Entry* entry : record->tensors) books_->SettleCopy(*entry, garbage);
  }
}

absl::StatusOr<uint64_t> Sleepers::DropCopies(absl::Span<const uint64_t> owners) const {
  Books::Garbage garbage(*books_);
  MutexLock lock(books_->mutex);
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnerRecord*> records, books_->FindOwners(owners));
  absl::flat_hash_set<const std::byte*> dropped;  // equal contents have one copy
  uint64_t bytes = 0;
  for (const OwnerRecord* record : records) {
    for (Entry* entry : record->tensors) {
      if (entry->host_copy == nullptr || !entry->CanComeBackWithoutCopy()) continue;
      if (dropped.insert(entry->host_copy.get()).second) bytes += entry->type.bytes();
      garbage.copies.push_back(std::move(entry->host_copy));
    }
  }
  return bytes;
}

}  // namespace npubank

#include "npubank/bank/books/books.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// What a lease holds. The books outlive it, and a pinned entry is never forgotten.
class PinnedTensor final : public Lease::Pin {
 public:
  PinnedTensor(std::shared_ptr<Books> books, Entry* entry)
      : books_(std::move(books)), entry_(entry), memory_(entry->memory.get()) {}
  ~PinnedTensor() override {
    Books::Garbage garbage(*books_);
    MutexLock lock(books_->mutex);
    --entry_->leases;
    books_->Settle(*entry_, garbage);
  }

  DeviceAllocation* memory() const override { return memory_; }
  const TensorType& type() const override { return entry_->type; }
  Uid uid() const override { return entry_->uid; }
  const Digest& stamp() const override { return entry_->stamp; }

 private:
  const std::shared_ptr<Books> books_;
  Entry* const entry_;
  DeviceAllocation* const memory_;  // the entry's, which stays while it is leased
};

}  // namespace

Books::Garbage::~Garbage() {
  entries.clear();
  memory.clear();
  if (!announced) return;
  MutexLock lock(books.mutex);
  --books.leaving;
  ++books.departures;
  books.departed.NotifyAll();
}

void Books::Look(absl::FunctionRef<void(const View&)> look) const {
  MutexLock lock(mutex);
  View view;
  view.counters = counters;
  for (const auto& [uid, entry] : entries) view.entries.push_back(entry.get());
  for (const auto& [id, record] : owners) view.owners.push_back(record.get());
  std::sort(view.entries.begin(), view.entries.end(),
            [](const Entry* a, const Entry* b) { return a->sequence < b->sequence; });
  std::sort(view.owners.begin(), view.owners.end(),
            [](const OwnerRecord* a, const OwnerRecord* b) { return a->id < b->id; });
  look(view);
}

std::shared_ptr<DeviceAllocation> Books::MemoryOf(const Lease& lease) const {
  MutexLock lock(mutex);
  return FindEntry(lease.uid())->memory;  // a leased entry is never forgotten
}

Entry* Books::FindEntry(Uid uid) const {
  const auto found = entries.find(uid.value);
  return found == entries.end() ? nullptr : found->second.get();
}

absl::StatusOr<OwnerRecord*> Books::FindOwner(uint64_t id) const {
  const auto found = owners.find(id);
  if (found == owners.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("owner ", id, " was released: add an owner and register again"));
  }
  return found->second.get();
}

absl::StatusOr<std::vector<OwnerRecord*>> Books::FindOwners(absl::Span<const uint64_t> ids) const {
  std::vector<OwnerRecord*> records;
  for (const uint64_t id : ids) {
    NPUBANK_ASSIGN_OR_RETURN(records.emplace_back(), FindOwner(id));
  }
  return records;
}

Lease Books::Pin(Entry& entry) {
  ++entry.leases;
  entry.last_used = clock;
  return Lease(std::make_shared<PinnedTensor>(shared_from_this(), &entry));
}

void Books::Evict(Entry& entry, Garbage& garbage) {
  ++counters.evictions;
  if (entry.owners.empty()) {
    Forget(entry, garbage);
    return;
  }
  contents.Remove(entry);
  entry.state = NextResidency(entry.state, ResidencyEvent::kEvicted).state;
  Leave(std::move(entry.memory), garbage);
}

void Books::Forget(Entry& entry, Garbage& garbage) {
  contents.Remove(entry);
  Leave(std::move(entry.memory), garbage);
  const auto found = entries.find(entry.uid.value);
  garbage.entries.push_back(std::move(found->second));
  entries.erase(found);
}

void Books::Leave(std::shared_ptr<DeviceAllocation> memory, Garbage& garbage) {
  if (memory == nullptr) return;
  garbage.memory.push_back(std::move(memory));
  if (!std::exchange(garbage.announced, true)) ++leaving;
}

void Books::Settle(Entry& entry, Garbage& garbage) {
  if (!entry.owners.empty() || entry.leases > 0) return;
  const ResidencyStep step = NextResidency(entry.state, ResidencyEvent::kReleased);
  if (step.action == ResidencyAction::kAbandon) {
    entry.flight->abandoned.store(true, std::memory_order_relaxed);
    return;
  }
  if (step.action == ResidencyAction::kReclaim && keep_unowned) {
    entry.idle_since = std::chrono::steady_clock::now();
    return;
  }
  Forget(entry, garbage);
}

void Books::SettleCopy(Entry& entry, Garbage& garbage) {
  if (entry.host_copy == nullptr || entry.state != Residency::kResident) return;
  const bool asleep = absl::c_all_of(
      entry.owners, [](const Ownership& of) { return of.owner->asleep || of.owner->waking; });
  if (asleep && !entry.owners.empty()) return;
  garbage.copies.push_back(std::move(entry.host_copy));
}

}  // namespace npubank

#include "npubank/bank/books/registry.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// When an owner went: what is evicted holds no source if the others can bring it back without.
void SettleRecipe(Entry& entry, Books::Garbage& garbage) {
  // One that was never resident keeps what it was registered with.
  if (entry.recipe == nullptr || entry.handle.has_value() ||
      entry.state == Residency::kEvaluating || !entry.CanComeBack()) {
    return;
  }
  garbage.recipes.push_back(std::move(entry.recipe));
}

}  // namespace

uint64_t Registry::AddOwner(absl::string_view name, std::shared_ptr<const SourceIndex> index) {
  auto record = std::make_unique<OwnerRecord>();
  record->name = std::string(name);
  record->index = std::move(index);
  MutexLock lock(books_->mutex);
  record->id = books_->next_owner++;
  const uint64_t id = record->id;
  books_->owners.emplace(id, std::move(record));
  return id;
}

void Registry::ReleaseOwner(uint64_t id) {
  {
    Books::Garbage garbage(*books_);
    std::unique_ptr<OwnerRecord> record;  // its index may be the last: dropped after the lock
    MutexLock lock(books_->mutex);
    const auto found = books_->owners.find(id);
    if (found == books_->owners.end()) return;
    record = std::move(found->second);
    books_->owners.erase(found);
    for (Entry* entry : record->tensors) {
      const auto ownership = absl::c_find_if(
          entry->owners, [&](const Ownership& of) { return of.owner == record.get(); });
      garbage.descriptions.push_back(std::move(ownership->way_back));
      entry->owners.erase(ownership);
      books_->SettleCopy(*entry, garbage);
      SettleRecipe(*entry, garbage);
      books_->Settle(*entry, garbage);
    }
  }
  books_->device->Trim();
}

std::shared_ptr<const SourceIndex> Registry::IndexOf(uint64_t owner) const {
  MutexLock lock(books_->mutex);
  const auto found = books_->owners.find(owner);
  return found == books_->owners.end() ? nullptr : found->second->index;
}

bool Registry::HasOwner(uint64_t id) const {
  MutexLock lock(books_->mutex);
  return books_->owners.contains(id);
}

absl::StatusOr<std::vector<OwnedTensor>> Registry::TensorsOf(uint64_t owner) const {
  MutexLock lock(books_->mutex);
  NPUBANK_ASSIGN_OR_RETURN(const OwnerRecord* record, books_->FindOwner(owner));
  std::vector<OwnedTensor> tensors;
  tensors.reserve(record->tensors.size());
  for (const Entry* entry : record->tensors) {
    tensors.push_back({.uid = entry->uid,
                       .name = entry->name,
                       .bytes = entry->type.bytes()});
  }
  return tensors;
}

absl::Status Registry::Ask(Entry& entry, const MemoryHints& hints, absl::string_view name,
                           Books::Garbage& garbage) {
  const std::string what = absl::StrCat("tensor '", name, "' is wanted ", hints.ToString(), ", ");
  for (const Ownership& of : entry.owners) {
    if (hints.pool == 0 || of.hints.pool == 0 || of.hints.pool == hints.pool) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(what, "but owner '", of.owner->name, "' has it in pool ", of.hints.pool,
                     ": name the same pool or none, or give one of the two a bank of its own"));
  }
  if (entry.LiesAs(hints)) return absl::OkStatus();
  if (entry.state == Residency::kEvaluating) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, "and is being put elsewhere right now: register it when that load is "
                           "done, or before it"));
  }
  if (entry.leases > 0 || !entry.CanComeBack()) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, "but is on the device elsewhere and ",
        entry.leases > 0 ? "leased: drop its leases" : "cannot be brought back: release its owner",
        ", or register it before it is loaded"));
  }
  books_->Evict(entry, garbage);
  return absl::OkStatus();
}

absl::StatusOr<Entry*> Registry::RegisterKnown(uint64_t owner, const LazyTensor& tensor,
                                               absl::string_view name, const Description& way_back,
                                               const MemoryHints& hints, Books::Garbage& garbage) {
  NPUBANK_ASSIGN_OR_RETURN(OwnerRecord * record, books_->FindOwner(owner));
  Entry* entry = books_->FindEntry(tensor.uid());
  if (entry == nullptr) return nullptr;
  if (entry->digest != tensor.digest()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "uid ", tensor.uid().ToHex(), " of '", name, "' (digest ", tensor.digest().ToHex(),
        ") belongs to another tensor, '", entry->name, "' (digest ", entry->digest.ToHex(),
        "); they are not shared: keep '", name, "' out of this bank"));
  }
  if (hints != MemoryHints()) {
    NPUBANK_RETURN_IF_ERROR(Ask(*entry, hints, name, garbage));
    entry = books_->FindEntry(tensor.uid());
    if (entry == nullptr) return nullptr;  // nobody had it
  }
  ++books_->counters.registrations;
  ++books_->counters.hits;
  ++entry->hits;
  const auto mine = absl::c_find_if(
      entry->owners, [&](const Ownership& of) { return of.owner == record; });
  if (mine != entry->owners.end()) {
    mine->hints = {.alignment = std::max(mine->hints.alignment, hints.alignment),
                   .pool = std::max(mine->hints.pool, hints.pool)};
    return entry;
  }
  entry->owners.push_back({record, way_back, hints});
  record->tensors.push_back(entry);
  books_->SettleCopy(*entry, garbage);
  return entry;
}

Registration Registry::Hit(LazyTensor& tensor, bool wants_recipe) {
  if (wants_recipe) {
    RecipePtr recipe = tensor.recipe();  // dropped after the lock when it came too late
    MutexLock lock(books_->mutex);
    Entry* entry = books_->FindEntry(tensor.uid());
    if (entry != nullptr && entry->WantsRecipe()) entry->recipe.swap(recipe);
  }
  tensor.Detach();
  return {.uid = tensor.uid(), .hit = true};
}

absl::StatusOr<Registration> Registry::Register(uint64_t owner, LazyTensor tensor,
                                                absl::string_view name, Description way_back,
                                                const MemoryHints& hints) {
  Books::Garbage garbage(*books_);
  const Entry* known = nullptr;
  bool wants_recipe = false;
  {
    MutexLock lock(books_->mutex);
    NPUBANK_ASSIGN_OR_RETURN(known, RegisterKnown(owner, tensor, name, way_back, hints, garbage));
    wants_recipe = known != nullptr && known->WantsRecipe();
  }
  if (known != nullptr) return Hit(tensor, wants_recipe);
  // A miss: everything that allocates is made before the lock is taken again.
  auto entry = std::make_unique<Entry>(tensor);
  entry->name = std::string(name);
  if (entry->recipe != nullptr) {
    entry->description = entry->recipe->Describe();
  } else if (way_back) {
    entry->description = way_back.Describe();
  }
  {
    MutexLock lock(books_->mutex);
    NPUBANK_ASSIGN_OR_RETURN(known, RegisterKnown(owner, tensor, name, way_back, hints, garbage));
    wants_recipe = known != nullptr && known->WantsRecipe();
    if (known == nullptr) {
      if (entry->recipe == nullptr && !way_back) {
        return absl::FailedPreconditionError(absl::StrCat(
            "tensor '", name, "' (uid ", tensor.uid().ToHex(),
            ") is detached and this bank does not know it: register it before detaching"));
      }
      NPUBANK_ASSIGN_OR_RETURN(OwnerRecord * record, books_->FindOwner(owner));
      ++books_->counters.registrations;
      entry->sequence = books_->next_sequence++;
      entry->owners.push_back({record, std::move(way_back), hints});
      record->tensors.push_back(entry.get());
      books_->entries.emplace(entry->uid.value, std::move(entry));
    }
  }
  if (known != nullptr) return Hit(tensor, wants_recipe);
  return Registration{.uid = tensor.uid()};
}

absl::Status Registry::Adopt(absl::Span<const AdoptedTensor> tensors,
                             std::shared_ptr<DeviceAllocation> memory,
                             const std::optional<Digest>& content) {
  std::vector<std::unique_ptr<Entry>> entries;
  for (const AdoptedTensor& tensor : tensors) {
    auto entry = std::make_unique<Entry>(tensor);
    entry->description = "made by an earlier process";
    entry->state = Residency::kResident;
    entry->memory = memory;
    entry->last_room = memory->reserved_bytes();
    entry->content = content;
    entries.push_back(std::move(entry));
  }
  MutexLock lock(books_->mutex);
  for (const auto& entry : entries) {
    const bool twice =
        absl::c_count_if(entries, [&](const auto& of) { return of->uid == entry->uid; }) > 1;
    if (!twice && books_->FindEntry(entry->uid) == nullptr) continue;
    return absl::AlreadyExistsError(absl::StrCat("tensor '", entry->name, "' (uid ",
                                                 entry->uid.ToHex(), ") is in the bank already"));
  }
  for (auto& entry : entries) {
    entry->sequence = books_->next_sequence++;
    books_->contents.Add(*entry);
    books_->entries.emplace(entry->uid.value, std::move(entry));
  }
  return absl::OkStatus();
}

}  // namespace npubank

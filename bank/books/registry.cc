#include "npubank/bank/books/registry.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/books/waiting.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

// What a lease holds. The registry outlives it, and a pinned entry is never forgotten.
class Registry::PinnedTensor final : public Lease::Pin {
 public:
  PinnedTensor(std::shared_ptr<Registry> registry, Entry* entry)
      : registry_(std::move(registry)),
        entry_(entry),
        address_(entry->memory == nullptr ? nullptr : entry->memory->address()),
        file_(entry->memory == nullptr ? nullptr : entry->memory->file()) {}
  ~PinnedTensor() override { registry_->Unpin(*entry_); }

  void* address() const override { return address_; }
  const TensorType& type() const override { return entry_->type; }
  Uid uid() const override { return entry_->uid; }
  const FileRange* file() const override { return file_; }

 private:
  std::shared_ptr<Registry> registry_;
  Entry* entry_;
  void* address_;
  const FileRange* file_;
};

Evaluation::Evaluation(std::shared_ptr<Registry> registry, Entry* entry)
    : registry_(std::move(registry)),
      entry_(entry),
      recipe_(entry->recipe),
      flight_(entry->flight) {}

Evaluation::~Evaluation() {
  if (entry_ != nullptr) Fail(absl::CancelledError("the evaluation was given up"));
}

PublishResult Evaluation::Publish(Published& published) {
  return registry_->Publish(*this, published);
}

WayBack Evaluation::way_back() const {
  WayBack way;
  MutexLock lock(registry_->mutex_);
  way.host_copy = entry_->host_copy;
  for (const Ownership& ownership : entry_->owners) {
    if (ownership.way_back) way.descriptions.push_back(ownership.way_back);
  }
  return way;
}

void Evaluation::Fail(absl::Status status) { registry_->Fail(*this, std::move(status)); }

Registry::Registry(std::shared_ptr<DeviceMemory> device, bool keep_unowned)
    : device_(std::move(device)), keep_unowned_(keep_unowned) {}

uint64_t Registry::AddOwner(absl::string_view name, std::shared_ptr<const SourceIndex> index) {
  auto record = std::make_unique<OwnerRecord>();
  record->name = std::string(name);
  record->index = std::move(index);
  MutexLock lock(mutex_);
  record->id = next_owner_++;
  const uint64_t id = record->id;
  owners_.emplace(id, std::move(record));
  return id;
}

void Registry::ReleaseOwner(uint64_t id) {
  {
    Garbage garbage(*this);
    std::unique_ptr<OwnerRecord> record;  // its index may be the last: dropped after the lock
    MutexLock lock(mutex_);
    const auto found = owners_.find(id);
    if (found == owners_.end()) return;
    record = std::move(found->second);
    owners_.erase(found);
    for (Entry* entry : record->tensors) {
      const auto ownership = absl::c_find_if(
          entry->owners, [&](const Ownership& of) { return of.owner == record.get(); });
      garbage.descriptions.push_back(std::move(ownership->way_back));
      entry->owners.erase(ownership);
      SettleCopy(*entry, garbage);
      SettleRecipe(*entry, garbage);
      Settle(*entry, garbage);
    }
  }
  device_->Trim();
}

std::shared_ptr<const SourceIndex> Registry::IndexOf(uint64_t owner) const {
  MutexLock lock(mutex_);
  const auto found = owners_.find(owner);
  return found == owners_.end() ? nullptr : found->second->index;
}

bool Registry::HasOwner(uint64_t id) const {
  MutexLock lock(mutex_);
  return owners_.contains(id);
}

absl::StatusOr<std::vector<OwnedTensor>> Registry::TensorsOf(uint64_t owner) const {
  MutexLock lock(mutex_);
  NPUBANK_ASSIGN_OR_RETURN(const OwnerRecord* record, FindOwner(owner));
  std::vector<OwnedTensor> tensors;
  tensors.reserve(record->tensors.size());
  for (const Entry* entry : record->tensors) {
    tensors.push_back({.uid = entry->uid,
                       .name = entry->name,
                       .bytes = static_cast<uint64_t>(entry->type.bytes()),
                       .resident = entry->state == Residency::kResident});
  }
  return tensors;
}

Entry* Registry::FindEntry(Uid uid) const {
  const auto found = entries_.find(uid.value);
  return found == entries_.end() ? nullptr : found->second.get();
}

absl::StatusOr<OwnerRecord*> Registry::FindOwner(uint64_t id) const {
  const auto found = owners_.find(id);
  if (found == owners_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("owner ", id, " was released: add an owner and register again"));
  }
  return found->second.get();
}

absl::StatusOr<Entry*> Registry::RegisterKnown(uint64_t owner, const LazyTensor& tensor,
                                               absl::string_view name, const Description& way_back,
                                               Garbage& garbage) {
  NPUBANK_ASSIGN_OR_RETURN(OwnerRecord * record, FindOwner(owner));
  Entry* entry = FindEntry(tensor.uid());
  if (entry == nullptr) return nullptr;
  if (entry->digest != tensor.digest()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "uid ", tensor.uid().ToHex(), " of '", name, "' (digest ", tensor.digest().ToHex(),
        ") belongs to another tensor, '", entry->name, "' (digest ", entry->digest.ToHex(),
        "); they are not shared: keep '", name, "' out of this bank"));
  }
  ++counters_.registrations;
  ++counters_.hits;
  ++entry->hits;
  if (absl::c_none_of(entry->owners, [&](const Ownership& of) { return of.owner == record; })) {
    entry->owners.push_back({record, way_back});
    record->tensors.push_back(entry);
    SettleCopy(*entry, garbage);
  }
  return entry;
}

bool Registry::WantsRecipe(const Entry& entry) {
  return entry.state != Residency::kResident && entry.recipe == nullptr &&
         entry.host_copy == nullptr;
}

Registration Registry::Hit(LazyTensor& tensor, bool wants_recipe) {
  if (wants_recipe) {
    RecipePtr recipe = tensor.recipe();  // dropped after the lock when it came too late
    MutexLock lock(mutex_);
    Entry* entry = FindEntry(tensor.uid());
    if (entry != nullptr && WantsRecipe(*entry)) entry->recipe.swap(recipe);
  }
  tensor.Detach();
  return {.uid = tensor.uid(), .hit = true};
}

absl::StatusOr<Registration> Registry::Register(uint64_t owner, LazyTensor tensor,
                                                absl::string_view name, Description way_back) {
  Garbage garbage(*this);
  const Entry* known = nullptr;
  bool wants_recipe = false;
  {
    MutexLock lock(mutex_);
    NPUBANK_ASSIGN_OR_RETURN(known, RegisterKnown(owner, tensor, name, way_back, garbage));
    wants_recipe = known != nullptr && WantsRecipe(*known);
  }
  if (known != nullptr) return Hit(tensor, wants_recipe);
  // A miss: everything that allocates is made before the lock is taken again.
  auto entry = std::make_unique<Entry>(tensor);
  entry->recipe = tensor.recipe();
  entry->uid = tensor.uid();
  entry->digest = tensor.digest();
  entry->stamp = tensor.stamp();
  entry->name = std::string(name);
  if (entry->recipe != nullptr) {
    entry->words = entry->recipe->Describe();
  } else if (way_back) {
    entry->words = way_back.Describe();
  }
  {
    MutexLock lock(mutex_);
    NPUBANK_ASSIGN_OR_RETURN(known, RegisterKnown(owner, tensor, name, way_back, garbage));
    wants_recipe = known != nullptr && WantsRecipe(*known);
    if (known == nullptr) {
      if (entry->recipe == nullptr && !way_back) {
        return absl::FailedPreconditionError(absl::StrCat(
            "tensor '", name, "' (uid ", tensor.uid().ToHex(),
            ") is detached and this bank does not know it: register it before detaching"));
      }
      NPUBANK_ASSIGN_OR_RETURN(OwnerRecord * record, FindOwner(owner));
      ++counters_.registrations;
      entry->sequence = next_sequence_++;
      entry->owners.push_back({record, std::move(way_back)});
      record->tensors.push_back(entry.get());
      entries_.emplace(entry->uid.value, std::move(entry));
    }
  }
  if (known != nullptr) return Hit(tensor, wants_recipe);
  return Registration{.uid = tensor.uid()};
}

absl::Status Registry::NotKnown(Uid uid) {
  return absl::NotFoundError(
      absl::StrCat("uid ", uid.ToHex(), " is not in the bank: register it, and keep its owner"));
}

absl::StatusOr<FoundTensors> Registry::Find(absl::Span<const Uid> uids) {
  FoundTensors found;
  found.leases.reserve(uids.size());
  MutexLock lock(mutex_);
  for (const Uid uid : uids) {
    if (FindEntry(uid) == nullptr) return NotKnown(uid);  // before anything is leased
  }
  for (const Uid uid : uids) {
    Entry& entry = *FindEntry(uid);
    const bool resident = entry.state == Residency::kResident;
    found.leases.push_back(resident ? Pin(entry) : Lease());
    if (resident || entry.state == Residency::kEvaluating) continue;
    MissingTensor& missing = found.missing.emplace_back();
    missing.name = entry.name;
    missing.digest = entry.digest;
    missing.stamp = entry.stamp;
    missing.bytes = entry.type.bytes();
    missing.room = std::max(missing.bytes, entry.last_room);
    missing.has_host_copy = entry.host_copy != nullptr;
    missing.recipe = entry.recipe;
    for (const Ownership& of : entry.owners) {
      if (missing.recipe == nullptr && !missing.description) missing.description = of.way_back;
    }
  }
  return found;
}

absl::StatusOr<Acquired> Registry::Acquire(Uid uid, const std::function<bool()>& cancelled) {
  for (;;) {
    std::shared_ptr<Flight> flight;  // the entry may be forgotten while we wait
    std::string name;
    {
      MutexLock lock(mutex_);
      Entry* entry = FindEntry(uid);
      if (entry == nullptr) return NotKnown(uid);
      const ResidencyStep step = NextResidency(entry->state, ResidencyEvent::kWanted);
      entry->state = step.state;
      if (step.action == ResidencyAction::kUse) return Acquired(Pin(*entry));
      if (step.action == ResidencyAction::kEvaluate) {
        entry->failure = absl::OkStatus();
        entry->flight = std::make_shared<Flight>();
        return Acquired(std::make_unique<Evaluation>(shared_from_this(), entry));
      }
      flight = entry->flight;
      name = entry->name;
      if (flight->evaluator == std::this_thread::get_id()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "tensor '", name, "' is wanted by the thread that is making it: a device memory's ",
            "Write must not ask the bank for what it writes"));
      }
      ++counters_.waits;
    }
    NPUBANK_RETURN_IF_ERROR(Await(*flight, name, cancelled));
  }
}

absl::Status Registry::Await(Flight& flight, const std::string& name,
                             const std::function<bool()>& cancelled) {
  for (;;) {
    if (cancelled && cancelled()) {
      return absl::CancelledError(
          absl::StrCat("tensor '", name, "': cancelled while another caller was evaluating it"));
    }
    MutexLock lock(mutex_);
    if (!flight.finished) WaitOnce(flight.done, mutex_, cancelled != nullptr);
    if (!flight.finished) continue;
    return absl::IsCancelled(flight.status) ? absl::OkStatus() : flight.status;
  }
}

Lease Registry::Pin(Entry& entry) {
  ++entry.leases;
  entry.last_used = clock_;
  return Lease(std::make_shared<PinnedTensor>(shared_from_this(), &entry));
}

void Registry::Unpin(Entry& entry) {
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  --entry.leases;
  Settle(entry, garbage);
}

void Registry::SettleRecipe(Entry& entry, Garbage& garbage) {
  // One that was never resident keeps what it was registered with.
  if (entry.recipe == nullptr || entry.handle.has_value() ||
      entry.state == Residency::kEvaluating || !CanComeBack(entry)) {
    return;
  }
  garbage.recipes.push_back(std::move(entry.recipe));
}

void Registry::Settle(Entry& entry, Garbage& garbage) {
  if (!entry.owners.empty() || entry.leases > 0) return;
  const ResidencyStep step = NextResidency(entry.state, ResidencyEvent::kReleased);
  if (step.action == ResidencyAction::kAbandon) {
    entry.flight->abandoned.store(true, std::memory_order_relaxed);
    return;
  }
  if (step.action == ResidencyAction::kReclaim && keep_unowned_) return;
  Forget(entry, garbage);
}

void Registry::LeaveContent(Entry& entry) {
  if (!entry.content.has_value()) return;
  const auto found = contents_.find(entry.content->low);
  std::erase(found->second, &entry);
  if (found->second.empty()) contents_.erase(found);
  entry.content.reset();
}

void Registry::Forget(Entry& entry, Garbage& garbage) {
  LeaveContent(entry);
  Leave(std::move(entry.memory), garbage);
  const auto found = entries_.find(entry.uid.value);
  garbage.entries.push_back(std::move(found->second));
  entries_.erase(found);
}

// Dropped without the lock: the last holder of a file closes it.
void Registry::DropSources(Entry& entry) {
  RecipePtr recipe;
  std::optional<LazyTensor> handle;
  {
    MutexLock lock(mutex_);
    recipe.swap(entry.recipe);
    handle.swap(entry.handle);
  }
  if (handle.has_value()) handle->Detach();
}

PublishResult Registry::Publish(Evaluation& evaluation, Published& published) {
  Entry& entry = *evaluation.entry_;
  evaluation.recipe_.reset();
  DropSources(entry);
  Garbage garbage(*this);
  MutexLock lock(mutex_);
  // A registration brought another recipe meanwhile; nobody may see that with a resident tensor.
  if (entry.recipe != nullptr) return std::vector<std::shared_ptr<DeviceAllocation>>();
  std::vector<std::shared_ptr<DeviceAllocation>> not_compared = NotCompared(published);
  if (!not_compared.empty()) return not_compared;
  entry.state = NextResidency(entry.state, ResidencyEvent::kPublished).state;
  SettleCopy(entry, garbage);
  entry.memory = std::move(published.memory);
  if (entry.memory != nullptr) entry.last_room = entry.memory->reserved_bytes();
  entry.evaluation_seconds = published.seconds;
  entry.content = published.content;
  if (entry.content.has_value()) contents_[entry.content->low].push_back(&entry);
  ++counters_.evaluations;
  if (published.origin == Origin::kTransformed) ++counters_.transformations;
  if (published.origin == Origin::kCache) ++counters_.cache_hits;
  evaluation.entry_ = nullptr;
  const std::shared_ptr<Flight> flight = std::move(entry.flight);
  flight->finished = true;
  flight->done.NotifyAll();
  return Pin(entry);
}

void Registry::Fail(Evaluation& evaluation, absl::Status status) {
  Garbage garbage(*this);
  evaluation.recipe_.reset();
  MutexLock lock(mutex_);
  Entry& entry = *std::exchange(evaluation.entry_, nullptr);
  entry.state = NextResidency(entry.state, ResidencyEvent::kFailed).state;
  entry.failure = status;
  const std::shared_ptr<Flight> flight = std::move(entry.flight);
  flight->finished = true;
  flight->status = std::move(status);
  flight->done.NotifyAll();
  Settle(entry, garbage);
}

std::vector<std::shared_ptr<DeviceAllocation>> Registry::NotCompared(
    const Published& published) const {
  std::vector<std::shared_ptr<DeviceAllocation>> memory;
  if (!published.content.has_value()) return memory;
  const auto found = contents_.find(published.content->low);
  if (found == contents_.end()) return memory;
  for (const Entry* entry : found->second) {
    if (entry->content != published.content) continue;
    if (entry->memory == published.memory) return {};  // it shares already
    if (!absl::c_linear_search(published.others, entry->memory)) memory.push_back(entry->memory);
  }
  return memory;
}

std::shared_ptr<DeviceAllocation> Registry::MemoryOf(const Lease& lease) const {
  MutexLock lock(mutex_);
  return FindEntry(lease.uid())->memory;  // a leased entry is never forgotten
}

void Registry::Look(absl::FunctionRef<void(const Books&)> look) const {
  MutexLock lock(mutex_);
  Books books;
  books.counters = counters_;
  for (const auto& [uid, entry] : entries_) books.entries.push_back(entry.get());
  for (const auto& [id, record] : owners_) books.owners.push_back(record.get());
  std::sort(books.entries.begin(), books.entries.end(),
            [](const Entry* a, const Entry* b) { return a->sequence < b->sequence; });
  std::sort(books.owners.begin(), books.owners.end(),
            [](const OwnerRecord* a, const OwnerRecord* b) { return a->id < b->id; });
  look(books);
}

}  // namespace npubank

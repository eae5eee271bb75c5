#include "npubank/bank/books/flights.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "npubank/bank/books/waiting.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

absl::Status NotKnown(Uid uid) {
  return absl::NotFoundError(
      absl::StrCat("uid ", uid.ToHex(), " is not in the bank: register it, and keep its owner"));
}

// One of those a flight counts, who waits no longer when it goes.
struct Waiter {
  Flight& flight;
  ~Waiter() { --flight.waiters; }
};

}  // namespace

Evaluation::Evaluation(std::shared_ptr<Books> books, Entry* entry)
    : books_(std::move(books)), entry_(entry), recipe_(entry->recipe), flight_(entry->flight) {}

Evaluation::~Evaluation() {
  if (entry_ != nullptr) Fail(absl::CancelledError("the evaluation was given up"));
}

WayBack Evaluation::way_back() const {
  WayBack way;
  MutexLock lock(books_->mutex);
  way.host_copy = entry_->host_copy;
  for (const Ownership& ownership : entry_->owners) {
    if (ownership.way_back) way.descriptions.push_back(ownership.way_back);
  }
  return way;
}

PublishResult Evaluation::Publish(Published& published) {
  DropSources();
  Books::Garbage garbage(*books_);
  MutexLock lock(books_->mutex);
  Entry& entry = *entry_;
  // A registration brought another recipe meanwhile; nobody may see that with a resident tensor.
  if (entry.recipe != nullptr) return std::vector<std::shared_ptr<DeviceAllocation>>();
  auto not_compared =
      books_->contents.NotCompared(published.content, published.memory, published.others);
  if (!not_compared.empty()) return not_compared;
  entry.state = NextResidency(entry.state, ResidencyEvent::kPublished).state;
  books_->SettleCopy(entry, garbage);
  entry.memory = std::move(published.memory);
  if (entry.memory != nullptr) entry.last_room = entry.memory->reserved_bytes();
  entry.pool = flight_->hints.pool;
  entry.evaluation_seconds = published.seconds;
  entry.origin = published.origin;
  entry.stored_bytes = published.stored_bytes;
  entry.content = published.content;
  books_->contents.Add(entry);
  ++books_->counters.evaluations;
  if (published.origin == Origin::kTransformed) ++books_->counters.transformations;
  if (published.origin == Origin::kMisaligned) {
    ++books_->counters.misaligned;
    books_->counters.misaligned_bytes += entry.type.bytes();
  }
  if (published.origin == Origin::kCache) ++books_->counters.cache_hits;
  if (published.origin == Origin::kService) {
    ++books_->counters.service_hits;
    books_->counters.service_bytes += entry.type.bytes();
  }
  Land(absl::OkStatus());
  return books_->Pin(entry);
}

void Evaluation::Fail(absl::Status status) {
  Books::Garbage garbage(*books_);
  recipe_.reset();
  MutexLock lock(books_->mutex);
  Entry& entry = *entry_;
  entry.state = NextResidency(entry.state, ResidencyEvent::kFailed).state;
  entry.failure = status;
  Land(std::move(status));
  books_->Settle(entry, garbage);
}

// Dropped without the lock: the last holder of a file closes it.
void Evaluation::DropSources() {
  recipe_.reset();
  RecipePtr recipe;
  std::optional<LazyTensor> handle;
  {
    MutexLock lock(books_->mutex);
    recipe.swap(entry_->recipe);
    handle.swap(entry_->handle);
  }
  if (handle.has_value()) handle->Detach();
}

void Evaluation::Land(absl::Status status) {
  entry_->flight.reset();
  entry_ = nullptr;
  flight_->finished = true;
  flight_->status = std::move(status);
  flight_->done.NotifyAll();
}

absl::StatusOr<FoundTensors> Flights::Find(absl::Span<const Uid> uids) const {
  FoundTensors found;
  found.leases.reserve(uids.size());
  MutexLock lock(books_->mutex);
  for (const Uid uid : uids) {
    if (books_->FindEntry(uid) == nullptr) return NotKnown(uid);  // before anything is leased
  }
  for (const Uid uid : uids) {
    Entry& entry = *books_->FindEntry(uid);
    const bool resident = entry.state == Residency::kResident;
    found.leases.push_back(resident ? books_->Pin(entry) : Lease());
    if (resident || entry.state == Residency::kEvaluating) continue;
    MissingTensor& missing = found.missing.emplace_back();
    missing.name = entry.name;
    missing.digest = entry.digest;
    missing.stamp = entry.stamp;
    missing.bytes = entry.type.bytes();
    missing.room = std::max(missing.bytes, entry.last_room);
    missing.hints = entry.Hints();
    missing.has_host_copy = entry.host_copy != nullptr;
    missing.recipe = entry.recipe;
    for (const Ownership& of : entry.owners) {
      if (!missing.description) missing.description = of.way_back;
    }
  }
  return found;
}

absl::StatusOr<Acquired> Flights::Acquire(Uid uid, const std::function<bool()>& cancelled) const {
  for (;;) {
    std::shared_ptr<Flight> flight;  // the entry may be forgotten while we wait
    std::string name;
    {
      MutexLock lock(books_->mutex);
      Entry* entry = books_->FindEntry(uid);
      if (entry == nullptr) return NotKnown(uid);
      const ResidencyStep step = NextResidency(entry->state, ResidencyEvent::kWanted);
      entry->state = step.state;
      if (step.action == ResidencyAction::kUse) return Acquired(books_->Pin(*entry));
      if (step.action == ResidencyAction::kEvaluate) {
        entry->failure = absl::OkStatus();
        entry->flight = std::make_shared<Flight>(entry->Hints());
        return Acquired(std::make_unique<Evaluation>(books_, entry));
      }
      flight = entry->flight;
      name = entry->name;
      if (flight->evaluator == std::this_thread::get_id()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "tensor '", name, "' is wanted by the thread that is making it: a device memory's ",
            "Write must not ask the bank for what it writes"));
      }
      ++books_->counters.waits;
      ++flight->waiters;
    }
    NPUBANK_RETURN_IF_ERROR(Await(*flight, name, cancelled));
  }
}

absl::Status Flights::Await(Flight& flight, const std::string& name,
                            const std::function<bool()>& cancelled) const {
  const Waiter waiter{flight};
  for (;;) {
    if (cancelled && cancelled()) {
      return absl::CancelledError(
          absl::StrCat("tensor '", name, "': cancelled while another caller was evaluating it"));
    }
    MutexLock lock(books_->mutex);
    if (!flight.finished) WaitOnce(flight.done, books_->mutex, cancelled != nullptr);
    if (!flight.finished) continue;
    return absl::IsCancelled(flight.status) ? absl::OkStatus() : flight.status;
  }
}

}  // namespace npubank

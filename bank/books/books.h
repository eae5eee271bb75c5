// Books: which tensors are known, who owns them, where each stands, who holds leases; and the one lock
// of the bank, which guards all of it.
//
//   Books::Garbage garbage(*books);  // before the lock: dropped after it
//   MutexLock lock(books->mutex);
//   Entry* entry = books->FindEntry(uid);
//   ... look-ups and field changes, no more ...
//   books->Settle(*entry, garbage);
//
// This is the data and the steps that several need. What they add up to is elsewhere: registry.h (who
// owns what), flights.h (one evaluation per tensor), sleepers.h (who sleeps, what a load wakes) and
// departures.h (what leaves for room). Each of their methods takes the lock once for each step.
//
// Nothing slow happens under the lock: what has to be freed is moved out and dropped after it (a recipe
// may unmap a file, an allocation calls a driver).
// Ownership: leases and evaluations keep the books. Threads: as annotated.
#ifndef NPUBANK_BANK_BOOKS_BOOKS_H_
#define NPUBANK_BANK_BOOKS_BOOKS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/bank/books/content_index.h"
#include "npubank/bank/books/entry.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/lease.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

struct Books : public std::enable_shared_from_this<Books> {
  // What is dropped when the lock is no longer held: declare it before the lock.
  struct Garbage {
    explicit Garbage(Books& of) : books(of) {}
    ~Garbage();
    Garbage(const Garbage&) = delete;
    Garbage& operator=(const Garbage&) = delete;

    Books& books;
    std::vector<std::unique_ptr<Entry>> entries;
    std::vector<std::shared_ptr<DeviceAllocation>> memory;
    std::vector<HostCopy> copies;
    std::vector<RecipePtr> recipes;
    std::vector<Description> descriptions;
    bool announced = false;  // counted in `leaving`
  };

  // Since the bank was made.
  struct Counters {
    uint64_t registrations = 0;
    uint64_t hits = 0;
    uint64_t evaluations = 0;
    uint64_t waits = 0;
    uint64_t evictions = 0;
    uint64_t transformations = 0;
    uint64_t cache_hits = 0;
    uint64_t service_hits = 0;
    uint64_t service_bytes = 0;
    uint64_t misaligned = 0;
    uint64_t misaligned_bytes = 0;
  };

  // All of it at one moment.
  struct View {
    std::vector<const Entry*> entries;       // in the order of registration
    std::vector<const OwnerRecord*> owners;  // in the order they were added
    Counters counters;
  };

  // With `keep_unowned`, tensors that nobody owns stay until somebody needs their room.
  Books(std::shared_ptr<DeviceMemory> memory, bool keeps_unowned)
      : device(std::move(memory)), keep_unowned(keeps_unowned) {}

  // Under the lock: look and copy, no more.
  void Look(absl::FunctionRef<void(const View&)> look) const;
  // The memory behind a lease; null for a tensor of 0 bytes.
  std::shared_ptr<DeviceAllocation> MemoryOf(const Lease& lease) const;

  // Null for what is not known.
  Entry* FindEntry(Uid uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // FailedPrecondition for an owner that was released.
  absl::StatusOr<OwnerRecord*> FindOwner(uint64_t id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::StatusOr<std::vector<OwnerRecord*>> FindOwners(absl::Span<const uint64_t> ids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Of a tensor that is resident.
  Lease Pin(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Takes a tensor off the device; forgets it if nobody owns it.
  void Evict(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Forget(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Looks whether anybody is left who needs the entry; it may be gone afterwards.
  void Settle(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Drops the host copy of what is on the device unless all its owners sleep, or may yet again.
  void SettleCopy(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const std::shared_ptr<DeviceMemory> device;  // outlives every allocation in the entries
  const bool keep_unowned;

  mutable Mutex mutex;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Entry>> entries ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<uint64_t, std::unique_ptr<OwnerRecord>> owners ABSL_GUARDED_BY(mutex);
  ContentIndex contents ABSL_GUARDED_BY(mutex);
  Counters counters ABSL_GUARDED_BY(mutex);
  uint64_t next_owner ABSL_GUARDED_BY(mutex) = 1;
  uint64_t next_sequence ABSL_GUARDED_BY(mutex) = 1;
  uint64_t clock ABSL_GUARDED_BY(mutex) = 1;  // in loads
  // What was evicted or forgotten gives its bytes back only after the lock.
  CondVar departed;
  uint64_t leaving ABSL_GUARDED_BY(mutex) = 0;     // heaps of garbage with memory in it
  uint64_t departures ABSL_GUARDED_BY(mutex) = 0;  // of such heaps that are gone

 private:
  // The memory leaves when the lock is no longer held; until then it counts as leaving.
  void Leave(std::shared_ptr<DeviceAllocation> memory, Garbage& garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_BOOKS_H_

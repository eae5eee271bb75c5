// Sleepers: which owners sleep, what that gives back, and what a load wakes.
//
//   Sleepers sleepers(books);
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<LeavingBytes> leaving, sleepers.LeavingWith(owners));
//   ... copy them to the host, if copies are to be kept ...
//   NPUBANK_ASSIGN_OR_RETURN(SleepReport report, sleepers.PutToSleep(owners, std::move(copies)));
//
//   NPUBANK_RETURN_IF_ERROR(sleepers.BeginLoad(owners));  // awake while the load is under way
//   ... load ...
//   sleepers.EndLoad(owners, succeeded);
//
// Threads: every method, from any thread. Cost: a walk over all that is on the device.
// Errors: FailedPrecondition, and nothing has changed, when an owner was released.
#ifndef NPUBANK_BANK_BOOKS_SLEEPERS_H_
#define NPUBANK_BANK_BOOKS_SLEEPERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/entry.h"
#include "npubank/bank/books/results.h"
#include "npubank/bank/lease.h"

namespace npubank {

// The copies that sleepers keep, by uid.
using HostCopies = absl::flat_hash_map<uint64_t, HostCopy>;

// Bytes that a sleep is about to give back, and the tensors that they are of.
struct LeavingBytes {
  std::vector<Uid> tensors;
  std::string name;  // of one of them
  Lease lease;
};

class Sleepers {
 public:
  explicit Sleepers(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  // What PutToSleep would evict if each of it had a way back, and what has no copy yet; leased.
  absl::StatusOr<std::vector<LeavingBytes>> LeavingWith(absl::Span<const uint64_t> owners) const;
  // Marks the owners asleep and evicts what only sleepers own and what can come back; each evicted
  // tensor keeps its copy, if there is one.
  absl::StatusOr<SleepReport> PutToSleep(absl::Span<const uint64_t> owners,
                                         HostCopies copies) const;
  // Drops the host copies of theirs that are not the only way back; returns their bytes.
  absl::StatusOr<uint64_t> DropCopies(absl::Span<const uint64_t> owners) const;

  // Marks the owners awake; what is leased from now on is younger than what was. When it does not
  // fail, EndLoad follows.
  absl::Status BeginLoad(absl::Span<const uint64_t> owners) const;
  // Puts those that slept and are left to sleep again unless this load, or another of theirs,
  // succeeded or is under way.
  void EndLoad(absl::Span<const uint64_t> owners, bool succeeded) const;

 private:
  SleepReport EvictSleeping(absl::Span<OwnerRecord* const> sleepers, HostCopies& copies,
                            Books::Garbage& garbage) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(books_->mutex);

  std::shared_ptr<Books> books_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_SLEEPERS_H_

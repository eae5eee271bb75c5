// Flights: one evaluation per tensor, whoever asks: who has it to make, and its waiters.
//
//   Flights flights(books);
//   NPUBANK_ASSIGN_OR_RETURN(Acquired acquired, flights.Acquire(uid, cancelled));
//   // either a Lease, or the duty to evaluate:
//   auto& evaluation = std::get<std::unique_ptr<Evaluation>>(acquired);
//   Published published = ... the bytes, on the device ...;
//   PublishResult result = evaluation->Publish(published);
//
// Nobody waits for an evaluation but in Acquire, and there without a lock but the one that the wait
// gives up. Threads: every method of Flights, from any thread; an Evaluation by one thread.
#ifndef NPUBANK_BANK_BOOKS_FLIGHTS_H_
#define NPUBANK_BANK_BOOKS_FLIGHTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/entry.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/lease.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {

// A tensor that a load will have to make resident, unless somebody else does so first.
struct MissingTensor {
  std::string name;
  Digest digest;
  Digest stamp;
  uint64_t bytes = 0;
  uint64_t room = 0;  // what it took of the device the last time; its bytes, the first time
  MemoryHints hints;
  bool has_host_copy = false;
  RecipePtr recipe;         // null for what is only described, or was evicted
  Description description;  // of the first owner who has one
};

// What a load finds.
struct FoundTensors {
  std::vector<Lease> leases;           // of what is resident; empty ones of the rest
  std::vector<MissingTensor> missing;  // of the rest, but for what is being evaluated
};

// How a tensor without a recipe comes to its bytes: `host_copy` if there is one, else any of the
// descriptions.
struct WayBack {
  HostCopy host_copy;
  std::vector<Description> descriptions;
};

// What an evaluation hands over.
struct Published {
  std::shared_ptr<DeviceAllocation> memory;
  double seconds = 0;
  std::optional<Digest> content;  // for finding tensors of equal bytes
  // With which `memory` was compared, and found to differ.
  std::vector<std::shared_ptr<DeviceAllocation>> others;
  Origin origin = Origin::kStored;
  uint64_t stored_bytes = 0;  // of the sources it was made of; 0 where nobody looked
};

// The tensor is resident; or it is not yet, because there are allocations of its content that its
// bytes were not compared with: share one of them, or add them to the others, and publish again. The
// look and the publication are one step, so equal tensors end up with one allocation however they
// came.
using PublishResult = std::variant<Lease, std::vector<std::shared_ptr<DeviceAllocation>>>;

// The right and the duty to evaluate one tensor: the others wait for it. Dropping it without
// Publish or Fail fails the tensor with Cancelled.
class Evaluation {
 public:
  // Of an entry that has begun to be evaluated.
  Evaluation(std::shared_ptr<Books> books, Entry* entry);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  const std::string& name() const { return entry_->name; }
  const TensorType& type() const { return entry_->type; }
  const Digest& digest() const { return entry_->digest; }
  const Digest& stamp() const { return entry_->stamp; }
  // Where its memory should lie.
  const MemoryHints& hints() const { return flight_->hints; }
  // Null for a tensor that is only described, or was evicted: see way_back().
  const RecipePtr& recipe() const { return recipe_; }
  WayBack way_back() const;
  bool abandoned() const { return flight_->abandoned.load(std::memory_order_relaxed); }
  // Others wait for it: whoever began it sees it through, also when he wants it no more himself.
  bool awaited() const { return flight_->waiters.load(std::memory_order_relaxed) > 0; }

  // Detaches the recipe, then makes the tensor resident: who sees it resident sees no source bytes.
  // Takes what is published only when it is.
  PublishResult Publish(Published& published);
  // The tensor keeps its recipe; the status goes to all waiters.
  void Fail(absl::Status status);

 private:
  // The bank's recipe and the submodel's handle.
  void DropSources();
  // Nobody evaluates the entry any more; its waiters get `status`.
  void Land(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(books_->mutex);

  const std::shared_ptr<Books> books_;
  Entry* entry_;  // cannot be forgotten while it is being evaluated; null when finished
  RecipePtr recipe_;
  const std::shared_ptr<Flight> flight_;
};

using Acquired = std::variant<Lease, std::unique_ptr<Evaluation>>;

class Flights {
 public:
  explicit Flights(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  // Leases what is resident of these, and tells what is not, all at one moment. NotFound as Acquire.
  absl::StatusOr<FoundTensors> Find(absl::Span<const Uid> uids) const;
  // A lease, or the duty to evaluate; waits while somebody else evaluates, and returns that
  // evaluation's Status when it fails (when it was only cancelled, which happens to one that nobody
  // waited for yet, this caller takes over).
  // NotFound for a uid that nobody registered or everybody released. Cancelled soon after
  // `cancelled` says so, if there is one: it is asked while waiting, without a lock.
  // FailedPrecondition for the thread that is evaluating the tensor itself.
  absl::StatusOr<Acquired> Acquire(Uid uid, const std::function<bool()>& cancelled) const;

 private:
  // Of one that counts this caller among its waiters, until it returns. Ok when the flight was ended or
  // cancelled: look again.
  absl::Status Await(Flight& flight, const std::string& name,
                     const std::function<bool()>& cancelled) const;

  std::shared_ptr<Books> books_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_FLIGHTS_H_

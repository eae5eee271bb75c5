// Registry: the bank's books: which tensors are known, who owns them, where each stands, who holds
// leases.
//
//   NPUBANK_ASSIGN_OR_RETURN(Registration known, registry->Register(owner_id, tensor, "wq"));
//   NPUBANK_ASSIGN_OR_RETURN(Acquired acquired, registry->Acquire(known.uid));
//   // either a Lease, or the duty to evaluate:
//   auto& evaluation = std::get<std::unique_ptr<Evaluation>>(acquired);
//   ... produce the bytes ...
//   Lease lease = evaluation->Publish(std::move(memory), seconds);
//
// The one lock of the bank lives here and is held for map look-ups and field changes only: what has
// to be freed is moved out and dropped after the lock (a recipe may unmap a file, an allocation
// calls a driver).
// Threads: every method, from any thread.
#ifndef NPUBANK_BANK_BOOKS_REGISTRY_H_
#define NPUBANK_BANK_BOOKS_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/books/residency.h"
#include "npubank/bank/books/results.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/lease.h"
#include "npubank/bank/owner.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/lazy_tensor.h"

namespace npubank {

// A tensor's bytes in host memory.
using HostCopy = std::shared_ptr<const std::byte[]>;
// Those that sleepers keep, by uid.
using HostCopies = absl::flat_hash_map<uint64_t, HostCopy>;

// An evaluation that is under way. `finished` and `status` are guarded by the registry's mutex.
struct Flight {
  // Who evaluates, and would wait for itself if it wanted the tensor meanwhile.
  const std::thread::id evaluator = std::this_thread::get_id();
  CondVar done;
  bool finished = false;
  absl::Status status;
  std::atomic<bool> abandoned{false};  // nobody owns the tensor any more
};

struct Entry;

// Who registers. Guarded by the registry's mutex.
struct OwnerRecord {
  uint64_t id = 0;
  std::string name;
  std::shared_ptr<const SourceIndex> index;  // or null
  bool asleep = false;
  // While it is being loaded it is awake, so that nothing of it is evicted; the first load that
  // succeeds makes that final, and when all have failed it sleeps again.
  bool waking = false;          // it slept, and no load has succeeded yet
  uint64_t loads = 0;           // under way
  std::vector<Entry*> tensors;  // in registration order, each once
};

// One owner of a tensor, and how that owner brings it back after an eviction; empty: not at all.
struct Ownership {
  const OwnerRecord* owner = nullptr;
  Description way_back;
};

// A tensor the bank knows. The first group never changes; the rest is guarded by the registry's
// mutex.
struct Entry {
  explicit Entry(const LazyTensor& tensor) : type(tensor.type()), handle(tensor) {}

  Uid uid;
  Digest digest;
  Digest stamp;  // of the sources it was registered with
  TensorType type;
  std::string name;       // the first it was registered under
  std::string words;      // its recipe in words
  uint64_t sequence = 0;  // registration order

  Residency state = Residency::kRegistered;
  // Until published; of what has left the device, a later registration's until it is back. `handle`
  // shares its state with copies that the submodel kept; `recipe` is the bank's own, so that a hit
  // which detaches one of those copies does not take the recipe away.
  RecipePtr recipe;
  std::optional<LazyTensor> handle;
  absl::Status failure;
  std::shared_ptr<Flight> flight;
  std::shared_ptr<DeviceAllocation> memory;  // null for a tensor of 0 bytes
  std::vector<Ownership> owners;
  uint64_t leases = 0;
  uint64_t hits = 0;
  double evaluation_seconds = 0;
  uint64_t last_used = 0;  // the registry's clock at the last lease
  // A way back after eviction: the bytes a sleeper kept, until it is on the device and an owner is
  // awake.
  HostCopy host_copy;
  std::optional<Digest> content;  // while resident
  // What it took when it was last on the device: what it will take again, as far as a plan can tell.
  uint64_t last_room = 0;
};

// How a tensor without a recipe comes to its bytes: `host_copy` if there is one, else any of the
// descriptions.
struct WayBack {
  HostCopy host_copy;
  std::vector<Description> descriptions;
};

// Where an evaluation's bytes came from.
enum class Origin : uint8_t {
  kStored,       // copied or imported as they are in the checkpoint, or from a host copy
  kTransformed,  // computed from the source
  kCache,        // computed by an earlier evaluation
};

// What an evaluation hands over.
struct Published {
  std::shared_ptr<DeviceAllocation> memory;
  double seconds = 0;
  std::optional<Digest> content;  // for finding tensors of equal bytes
  // With which `memory` was compared, and found to differ.
  std::vector<std::shared_ptr<DeviceAllocation>> others;
  Origin origin = Origin::kStored;
};

// The tensor is resident; or it is not yet, because there are allocations of its content that its
// bytes were not compared with: share one of them, or add them to the others, and publish again. The
// look and the publication are one step, so equal tensors end up with one allocation however they
// came.
using PublishResult = std::variant<Lease, std::vector<std::shared_ptr<DeviceAllocation>>>;

class Registry;

// The right and the duty to evaluate one tensor: the others wait for it. Dropping it without
// Publish or Fail fails the tensor with Cancelled.
class Evaluation {
 public:
  Evaluation(std::shared_ptr<Registry> registry, Entry* entry);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  const std::string& name() const { return entry_->name; }
  const TensorType& type() const { return entry_->type; }
  const Digest& digest() const { return entry_->digest; }
  const Digest& stamp() const { return entry_->stamp; }
  // Null for a tensor that is only described, or was evicted: see way_back().
  const RecipePtr& recipe() const { return recipe_; }
  WayBack way_back() const;
  bool abandoned() const { return flight_->abandoned.load(std::memory_order_relaxed); }

  // Detaches the recipe, then makes the tensor resident: who sees it resident sees no source bytes.
  // Takes what is published only when it is.
  PublishResult Publish(Published& published);
  // The tensor keeps its recipe; the status goes to everyone who waits.
  void Fail(absl::Status status);

 private:
  friend class Registry;
  std::shared_ptr<Registry> registry_;
  Entry* entry_;  // cannot be forgotten while it is being evaluated; null when finished
  RecipePtr recipe_;
  std::shared_ptr<Flight> flight_;
};

using Acquired = std::variant<Lease, std::unique_ptr<Evaluation>>;

// One tensor of an owner, for planning a load.
struct OwnedTensor {
  Uid uid;
  std::string name;
  uint64_t bytes = 0;
  bool resident = false;
};

// A tensor that a load will have to make resident, unless somebody else does so first.
struct MissingTensor {
  std::string name;
  Digest digest;
  Digest stamp;
  uint64_t bytes = 0;
  uint64_t room = 0;  // what it took of the device the last time; its bytes, the first time
  bool has_host_copy = false;
  RecipePtr recipe;         // or, when null,
  Description description;  // of the first owner who has one
};

// What a load finds.
struct FoundTensors {
  std::vector<Lease> leases;           // of what is resident; empty ones of the rest
  std::vector<MissingTensor> missing;  // of the rest, but for what is being evaluated
};

// Bytes that a sleep is about to give back, and the tensors that they are of.
struct LeavingBytes {
  std::vector<Uid> tensors;
  std::string name;  // of one of them
  Lease lease;
};

class Registry final : public Owner::Ledger, public std::enable_shared_from_this<Registry> {
 public:
  // With `keep_unowned`, tensors that nobody owns stay until somebody needs their room.
  Registry(std::shared_ptr<DeviceMemory> device, bool keep_unowned);

  uint64_t AddOwner(absl::string_view name, std::shared_ptr<const SourceIndex> index);
  // Null for an owner that has none, or was released.
  std::shared_ptr<const SourceIndex> IndexOf(uint64_t owner) const;
  void ReleaseOwner(uint64_t id) override;
  bool HasOwner(uint64_t id) const;
  bool keeps_unowned() const { return keep_unowned_; }
  // In the order of registration by this owner; FailedPrecondition after its release.
  absl::StatusOr<std::vector<OwnedTensor>> TensorsOf(uint64_t owner) const;

  // `way_back` is this owner's; it may be empty.
  absl::StatusOr<Registration> Register(uint64_t owner, LazyTensor tensor, absl::string_view name,
                                        Description way_back);

  // Leases what is resident of these, and tells what is not, all at one moment. NotFound as Acquire.
  absl::StatusOr<FoundTensors> Find(absl::Span<const Uid> uids);
  // A lease, or the duty to evaluate; waits while somebody else evaluates, and returns that
  // evaluation's Status when it fails (when it was only cancelled, this caller takes over).
  // NotFound for a uid that nobody registered or everybody released. Cancelled soon after
  // `cancelled` says so, if there is one: it is asked while waiting, without a lock.
  absl::StatusOr<Acquired> Acquire(Uid uid, const std::function<bool()>& cancelled);

  // Evicts so that at least `bytes` go back to the device; false, and nothing has changed, when
  // what may leave is not enough.
  bool EvictFor(uint64_t bytes);
  // How many EvictFor could give back at most.
  uint64_t EvictableBytes() const;
  // What was evicted or forgotten gives its bytes back only after the lock, so who finds neither
  // room nor a victim may have come a moment too early:
  //
  //   const uint64_t seen = registry->departures();
  //   while (!... there is room ...) {
  //     if (!registry->EvictFor(bytes) && !registry->AwaitDeparture(seen)) ... refuse ...
  //
  // True when something has left since `seen`; waits for it while anything is on its way.
  bool AwaitDeparture(uint64_t seen);
  uint64_t departures() const;
  // Drops what nobody owns; returns how many bytes went back.
  uint64_t Trim();
  // What PutToSleep would evict if each of it had a way back, and what has no copy yet; leased.
  absl::StatusOr<std::vector<LeavingBytes>> LeavingWith(absl::Span<const uint64_t> owners);
  // Marks the owners asleep and evicts what only sleepers own and what can come back; each evicted
  // tensor keeps its copy, if there is one. FailedPrecondition, and nobody sleeps, when an owner was
  // released.
  absl::StatusOr<SleepReport> PutToSleep(absl::Span<const uint64_t> owners, HostCopies copies);
  // Drops the host copies of theirs that are not the only way back; returns their bytes.
  absl::StatusOr<uint64_t> DropCopies(absl::Span<const uint64_t> owners);
  // Marks the owners awake; what is leased from now on is younger than what was. Fails as PutToSleep
  // does. When it does not fail, EndLoad follows.
  absl::Status BeginLoad(absl::Span<const uint64_t> owners);
  // Puts those that slept and are left to sleep again unless this load, or another of theirs,
  // succeeded or is under way.
  void EndLoad(absl::Span<const uint64_t> owners, bool succeeded);
  // The largest tensors on the device, in words, for a message.
  std::string LargestHolders() const;

  // The memory behind a lease; null for a tensor of 0 bytes.
  std::shared_ptr<DeviceAllocation> MemoryOf(const Lease& lease) const;

  struct Counters {
    uint64_t registrations = 0;
    uint64_t hits = 0;
    uint64_t evaluations = 0;
    uint64_t waits = 0;
    uint64_t evictions = 0;
    uint64_t transformations = 0;
    uint64_t cache_hits = 0;
  };
  // All of it at one moment.
  struct Books {
    std::vector<const Entry*> entries;       // in the order of registration
    std::vector<const OwnerRecord*> owners;  // in the order they were added
    Counters counters;
  };
  // Under the lock: look and copy, no more.
  void Look(absl::FunctionRef<void(const Books&)> look) const;

 private:
  friend class Evaluation;
  class PinnedTensor;
  struct Group;  // tensors that share an allocation
  // What is dropped when the lock is no longer held: declare it before the lock.
  struct Garbage {
    explicit Garbage(Registry& of) : registry(of) {}
    ~Garbage();
    Garbage(const Garbage&) = delete;
    Garbage& operator=(const Garbage&) = delete;

    Registry& registry;
    std::vector<std::unique_ptr<Entry>> entries;
    std::vector<std::shared_ptr<DeviceAllocation>> memory;
    std::vector<HostCopy> copies;
    std::vector<RecipePtr> recipes;
    std::vector<Description> descriptions;
    bool announced = false;  // counted in `leaving_`
  };

  Lease Pin(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unpin(Entry& entry);
  static bool CanComeBack(const Entry& entry);
  static bool CanComeBackWithoutCopy(const Entry& entry);
  static absl::Status NotKnown(Uid uid);
  // What nobody leases and can come back.
  std::vector<Group> Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All that is on the device, in the order of registration.
  std::vector<Group> Groups() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SleepReport EvictSleeping(absl::Span<OwnerRecord* const> sleepers, HostCopies& copies,
                            Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the host copy of what is on the device unless all its owners sleep, or may yet again.
  static void SettleCopy(Entry& entry, Garbage& garbage);
  // When an owner went: what is evicted holds no source if the others can bring it back without.
  static void SettleRecipe(Entry& entry, Garbage& garbage);
  void LeaveContent(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The memory leaves when the lock is no longer held; until then it counts as leaving.
  void Leave(std::shared_ptr<DeviceAllocation> memory, Garbage& garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks whether anybody is left who needs the entry; it may be gone afterwards.
  void Settle(Entry& entry, Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindEntry(Uid uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<OwnerRecord*> FindOwner(uint64_t id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<OwnerRecord*>> FindOwners(absl::Span<const uint64_t> ids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The tensor's entry, which is now the owner's as well; null when the tensor is not known.
  absl::StatusOr<Entry*> RegisterKnown(uint64_t owner, const LazyTensor& tensor,
                                       absl::string_view name, const Description& way_back,
                                       Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a registration's recipe is kept until the tensor is resident: there is no other at hand, and
  // what is being tried may fail and go. A recipe at hand is better than what a description promises.
  static bool WantsRecipe(const Entry& entry);
  Registration Hit(LazyTensor& tensor, bool wants_recipe);
  // Ok when the flight was ended or cancelled: look again.
  absl::Status Await(Flight& flight, const std::string& name,
                     const std::function<bool()>& cancelled);
  std::vector<std::shared_ptr<DeviceAllocation>> NotCompared(const Published& published) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropSources(Entry& entry);
  PublishResult Publish(Evaluation& evaluation, Published& published);
  void Fail(Evaluation& evaluation, absl::Status status);

  const std::shared_ptr<DeviceMemory> device_;  // outlives every allocation in the entries
  const bool keep_unowned_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::unique_ptr<OwnerRecord>> owners_ ABSL_GUARDED_BY(mutex_);
  // By the low half of the content hash: candidates, and no more than that.
  absl::flat_hash_map<uint64_t, std::vector<Entry*>> contents_ ABSL_GUARDED_BY(mutex_);
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_owner_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 1;  // in loads
  CondVar departed_;
  uint64_t leaving_ ABSL_GUARDED_BY(mutex_) = 0;     // heaps of garbage with memory in it
  uint64_t departures_ ABSL_GUARDED_BY(mutex_) = 0;  // of such heaps that are gone
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_REGISTRY_H_

// Bank: one copy of every weight on the device, however many submodels use it.
//
//   std::shared_ptr<Bank> bank = Bank::Create(device_memory, {});
//   Owner prefill = bank->AddOwner("prefill");
//   for (LazyTensor& weight : prefill_weights)
//     NPUBANK_RETURN_IF_ERROR(bank->Register(prefill, weight, "layers.0.wq").status());
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<Lease> leases, bank->Load(prefill));
//   graph.SetArgument(0, leases[0].address());  // leases[i] is of the i-th tensor registered
//
// One weight by itself: bank->Load("demo", tensor) gives its lease.
//
// Register: the first time a uid is seen the bank keeps the recipe; after that (a hit) the incoming
// tensor is detached at once, and the bank keeps its recipe only if the tensor has left the device
// and nothing better brings it back. Load: wakes the owners that sleep; each of their tensors that is
// not resident yet is allocated on the device, evaluated straight into it, published, leased to the
// caller, and its recipe detached; one evaluation per uid, whoever asks, and the others wait for it
// and get the same Status. Get: the same for one tensor.
//
// Ownership: an Owner (one per submodel) keeps its tensors known; dropping it releases them, and a
// uid without owner or lease gives its device bytes back. A Lease pins: while it lives the bytes do
// not move, also after its owner is gone. Owners and leases keep the bank alive.
// Threads: every method, from any thread. Nothing slow happens under a lock. Evaluation and
// allocation order is registration order.
// Errors: each names the tensor. A failed evaluation leaves no allocation, the tensor keeps its
// recipe and the next Load or Get tries again. AlreadyExists: two digests behind one
// uid; never shared.
// Room: with a budget, or when the driver has no more memory, idle tensors leave the device: first
// those nobody owns, then those used longest ago, the cheapest to bring back first; one that is
// leased, or that cannot be brought back, never does. A load keeps what it has loaded until it ends,
// so a model that is larger than the budget is refused; what it had evaluated by then stays, idle,
// until its owner goes or room is needed. ResourceExhausted names the largest holders when there is
// not enough: drop an owner or put it to sleep.
// Cost: a Register that hits is one hash look-up.
#ifndef NPUBANK_BANK_BANK_H_
#define NPUBANK_BANK_BANK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/lease.h"
#include "npubank/bank/owner.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/lazy_tensor.h"

namespace npubank {

class CacheFile;

struct BankOptions {
  // Threads for evaluation; null evaluates inline on the calling thread.
  std::shared_ptr<Workers> workers = nullptr;
  // Device bytes that tensors may take, as the strategy rounds them. Over it, idle tensors leave.
  uint64_t budget_bytes = ~uint64_t{0};
  // Tensors that nobody owns or leases stay until their room is needed, so that a model that comes
  // again finds them. Off: they go back to the device at once.
  bool keep_unowned = false;
  // Tensors with equal bytes share one allocation although their recipes or files differ. Each new
  // tensor is sampled, and compared in full with those that look like it (bank/content.h).
  bool share_content = true;
  // Evaluated tensors of earlier runs (bank/files/cache_file.h); Save it when the models are loaded.
  std::shared_ptr<CacheFile> cache = nullptr;
  // For tests: what is used in place of a content's sample, to make tensors look alike that do not.
  std::function<Digest(const Digest&)> content_hash_hook = nullptr;
};

// What an owner can do for the bank later.
struct OwnerOptions {
  // Where the stored parts of what this owner registers are found: its files stay open during a load
  // and are opened again when an evicted tensor is wanted. A tensor whose parts are not in it, or
  // that is registered without one, leaves the device only for a Sleep that keeps host copies (a
  // described tensor brings its own index).
  std::shared_ptr<const SourceIndex> index = nullptr;
};

struct SleepOptions {
  // Copy what leaves to host memory first: waking then needs neither the checkpoint nor a
  // transformation. The copies stay until a Load has succeeded.
  bool keep_host_copy = false;
};

// In device bytes, as the strategy rounds them. Equal contents that share an allocation count once,
// and stay when any of them stays.
struct SleepReport {
  uint64_t bytes_given_back = 0;
  uint64_t bytes_of_others_awake = 0;   // stay: an owner that is awake has them too
  uint64_t bytes_leased = 0;            // stay: somebody runs on them
  uint64_t bytes_without_way_back = 0;  // stay: an owner cannot bring them back, no host copy
};

struct Registration {
  Uid uid;
  bool hit = false;  // known already: the incoming tensor has been detached
};

struct LoadProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of the tensors this call will evaluate or wait for
  absl::string_view tensor;  // the one just finished
};

struct LoadOptions {
  std::function<void(const LoadProgress&)> progress;  // on the calling thread, after each tensor
  // Asked between tiles, from any worker, and while this call waits for another's evaluation.
  std::function<bool()> cancelled;
};

struct BankTotals {
  uint64_t unique_tensors = 0;
  uint64_t unique_bytes = 0;    // W: of every uid that is known
  uint64_t resident_bytes = 0;  // of those that are resident, as asked for
  uint64_t device_bytes = 0;    // the same, as the strategy rounds them
  uint64_t registrations = 0;   // since the bank was made
  uint64_t hits = 0;
  // Over live owners: the sum of the bytes each uses, minus the unique bytes among them.
  uint64_t shared_bytes_saved = 0;
  uint64_t evaluations = 0;          // that succeeded
  uint64_t waits = 0;                // for another caller's evaluation, or for what it evicts
  uint64_t content_bytes_saved = 0;  // device bytes that equal contents share
  uint64_t evictions = 0;
  // How the evaluations came by their bytes; the rest was copied or imported as it is stored.
  uint64_t transformations = 0;
  uint64_t cache_hits = 0;
  uint64_t budget_used = 0;  // of BankOptions::budget_bytes
};

class Bank : public std::enable_shared_from_this<Bank> {
 public:
  static std::shared_ptr<Bank> Create(std::shared_ptr<DeviceMemory> device, BankOptions options);
  ~Bank();

  Owner AddOwner(absl::string_view name, OwnerOptions options);
  Owner AddOwner(absl::string_view name) { return AddOwner(name, OwnerOptions()); }
  absl::StatusOr<Registration> Register(const Owner& owner, LazyTensor tensor,
                                        absl::string_view name);
  // Makes everything of these owners resident and returns the leases: owner after owner, each in the
  // order it registered, each tensor once. What was made resident stays leased from that moment on,
  // so nothing of a load is evicted before its caller has it. Owners that sleep are awake afterwards.
  // Several owners are one load: progress counts all of them.
  // When it fails, naming the tensor, those that slept sleep on with all they kept, unless another
  // Load of theirs succeeds: DataLoss or FailedPrecondition when a source is not what it was when it
  // was registered, NotFound, or what else its index says, when it is not there any more: register
  // it again from where it is now. Cancelled when an owner is released meanwhile.
  absl::StatusOr<std::vector<Lease>> Load(absl::Span<const Owner* const> owners,
                                          const LoadOptions& options = {});
  absl::StatusOr<std::vector<Lease>> Load(const Owner& owner, const LoadOptions& options = {}) {
    return Load({&owner}, options);
  }
  // One weight: registered under an owner of this name, which the lease and its copies keep and
  // which goes with the last of them.
  absl::StatusOr<Lease> Load(absl::string_view name, LazyTensor tensor,
                             const LoadOptions& options = {});
  // A Load whose leases are dropped: everything is resident, and may leave again for others' room.
  absl::Status EvaluateAndAllocate(absl::Span<const Owner* const> owners,
                                   const LoadOptions& options = {}) {
    return Load(owners, options).status();
  }
  absl::Status EvaluateAndAllocate(const Owner& owner, const LoadOptions& options = {}) {
    return EvaluateAndAllocate({&owner}, options);
  }
  // A load of one tensor that is registered, whoever owns it; nobody is woken. NotFound for a uid
  // that nobody registered or everybody released.
  absl::StatusOr<Lease> Get(Uid uid);
  // Copies [offset, offset + out.size()) of the tensor's device bytes to the host, as Get makes
  // them resident. OutOfRange beyond the end.
  absl::Status Read(Uid uid, uint64_t offset, absl::Span<std::byte> out);

  // Gives the device bytes of what only sleeping owners have back. Leases that are alive keep
  // theirs. All of the owners sleep afterwards, or, when it fails, those that slept before. What
  // stays for an owner who is awake, or for a lease, stays when that goes as well, until room is
  // needed or Sleep is called again.
  absl::StatusOr<SleepReport> Sleep(absl::Span<const Owner* const> owners,
                                    const SleepOptions& options = {});
  absl::StatusOr<SleepReport> Sleep(const Owner& owner, const SleepOptions& options = {}) {
    return Sleep({&owner}, options);
  }
  // Makes room for memory that is not the bank's: idle tensors of at least `bytes` leave the device.
  // False, and nothing has left, when there are not as many.
  bool Evict(uint64_t bytes);
  // Drops what nobody owns any more (keep_unowned); returns the device bytes given back.
  uint64_t Trim();

  BankTotals Totals() const;
  // Everything, for bank-inspect.
  BankSnapshot Snapshot() const;
  // Proves the books: see audit.h. `other_device_bytes` is what others hold through the same
  // DeviceMemory (activation arenas, caches), as their allocations' reserved_bytes() say. Source
  // bytes are counted for the whole process: name the banks beside this one that may hold any, or
  // that share its DeviceMemory.
  AuditReport Audit(uint64_t other_device_bytes = 0,
                    absl::Span<const Bank* const> neighbours = {}) const;

 private:
  struct Core;
  explicit Bank(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BANK_H_

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
// Ownership: an Owner (one per submodel) keeps its tensors known; dropping it releases them, and a
// uid without owner or lease gives its device bytes back. A Lease pins: while it lives the bytes do
// not move, also after its owner is gone. Owners and leases keep the bank alive.
// Threads: every method, from any thread. Nothing slow happens under a lock. One evaluation per uid,
// whoever asks; the others wait for it and get the same Status. Evaluation and allocation order is
// registration order.
// Errors: each names the tensor, or the load. A failed evaluation leaves no allocation, the tensor
// keeps its recipe and the next Load or Get tries again.
// Room: with a budget, or when the driver has no more memory, idle tensors leave the device: first
// those nobody owns, then those used longest ago, the cheapest to bring back first; one that is
// leased, or that cannot be brought back, never does. A load is admitted as a whole before its first
// evaluation (bank/books/budget/admission.h), waits while other loads may give up the room it needs, and is
// refused when none may: ResourceExhausted, with the load, its sum, the budget and the largest
// holders. Drop an owner, put one to sleep, or raise the budget.
#ifndef NPUBANK_BANK_BANK_H_
#define NPUBANK_BANK_BANK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/adopted_tensor.h"
#include "npubank/bank/bank_options.h"
#include "npubank/bank/books/results.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/lease.h"
#include "npubank/bank/owner.h"
#include "npubank/lazy_tensor/lazy_tensor.h"

namespace npubank {

struct AuditReport;     // bank/books/audit.h
struct BankSnapshot;    // bank/bank_snapshot.h
struct TensorSnapshot;  // bank/bank_snapshot.h

class Bank : public std::enable_shared_from_this<Bank> {
 public:
  // Without a device memory the bank can be made and asked, and every load is FailedPrecondition.
  static std::shared_ptr<Bank> Create(std::shared_ptr<DeviceMemory> device, BankOptions options);
  ~Bank();

  // Who will register; the name is for reports and errors and need not be unique.
  Owner AddOwner(absl::string_view name, OwnerOptions options);
  Owner AddOwner(absl::string_view name) { return AddOwner(name, OwnerOptions()); }

  // Makes `tensor` known as one of the owner's. The first time a uid is seen the bank keeps its
  // recipe; after that (a hit) the incoming tensor is detached at once, and the bank keeps its recipe
  // only if the tensor has left the device and nothing better brings it back. AlreadyExists: two
  // digests behind one uid, never shared. FailedPrecondition: a detached tensor that is not known,
  // or an owner that was released meanwhile. InvalidArgument: not an owner of this bank, or an alignment
  // that is no power of two. Cost: for a hit one hash look-up.
  // `hints` say where the device memory should put it; they hold for as long as the owner has it.
  // What the memory cannot do is Unimplemented. Of several owners the largest alignment counts, and all
  // that name a pool must name the same. What is on the device elsewhere leaves it, if it can, and the
  // next load puts it where it is wanted; what is leased or being evaluated, or has no way back, is
  // FailedPrecondition, and so is another owner's pool. Pages of a file or of another process that do not lie
  // as wanted are not imported: the tensor is copied, or made, by this bank. Tensors of equal bytes share
  // memory only where it lies as both want it, and never when a pool is named.
  absl::StatusOr<Registration> Register(const Owner& owner, LazyTensor tensor,
                                        absl::string_view name, const MemoryHints& hints = {});

  // Makes everything of these owners resident and returns the leases: owner after owner, each in the
  // order it registered, each tensor once. Each tensor that is not resident yet is allocated on the
  // device, evaluated straight into it, published, and its recipe detached; it is leased from that
  // moment on, so nothing of a load is evicted before its caller has it. Owners that sleep are awake
  // afterwards. Several owners are one load: one admission, one progress.
  // When it fails, those that slept sleep on with all they kept, unless another Load of theirs
  // succeeds; what it had evaluated for those awake stays, idle. ResourceExhausted: no room, see
  // above. DataLoss or FailedPrecondition when a source is not what it was when it was registered,
  // NotFound, or what else its index says, when it is not there any more: register it again from where
  // it is now. Cancelled, also when an owner is released meanwhile. InvalidArgument: not an
  // owner of this bank.
  absl::StatusOr<std::vector<Lease>> Load(absl::Span<const Owner* const> owners,
                                          const LoadOptions& options = {});
  absl::StatusOr<std::vector<Lease>> Load(const Owner& owner, const LoadOptions& options = {}) {
    return Load({&owner}, options);
  }
  // One weight: registered under an owner of this name, which the lease and its copies keep and
  // which goes with the last of them. Errors: those of Register and Load; no owner is left then.
  absl::StatusOr<Lease> Load(absl::string_view name, LazyTensor tensor,
                             const LoadOptions& options = {});
  // A Load whose leases are dropped: everything is resident, and may leave again for others' room.
  absl::Status EvaluateAndAllocate(absl::Span<const Owner* const> owners,
                                   const LoadOptions& options = {});
  absl::Status EvaluateAndAllocate(const Owner& owner, const LoadOptions& options = {}) {
    return EvaluateAndAllocate({&owner}, options);
  }
  // A load of one tensor that is registered, whoever owns it; nobody is woken. NotFound for a uid
  // that nobody registered or everybody released; else the errors of Load. Cost, for what is
  // resident: one hash look-up.
  absl::StatusOr<Lease> Get(Uid uid);
  // Tensors that an earlier process made, all of them the bytes of `memory`, which is of this bank's
  // device memory and written: from now on they are resident and nobody's, as what an owner left behind.
  // Nothing is adopted when it fails: FailedPrecondition in a bank that keeps nothing unowned,
  // InvalidArgument for no tensors, or bytes that are not theirs, AlreadyExists for one that is known,
  // ResourceExhausted for more than the budget has left.
  absl::Status Adopt(absl::Span<const AdoptedTensor> tensors,
                     std::unique_ptr<DeviceAllocation> memory);
  // Copies [offset, offset + out.size()) of the tensor's device bytes to the host, as Get makes
  // them resident. OutOfRange beyond the end.
  absl::Status Read(Uid uid, uint64_t offset, absl::Span<std::byte> out);

  // Gives the device bytes of what only sleeping owners have back. Leases that are alive keep
  // theirs. All of the owners sleep afterwards, or, when it fails, those that slept before:
  // FailedPrecondition for an owner that was released meanwhile, InvalidArgument for one that is not
  // of this bank, and what a host copy fails with. What stays for an owner who is awake, or for a
  // lease, stays when that goes as well, until room is needed or Sleep is called again.
  absl::StatusOr<SleepReport> Sleep(absl::Span<const Owner* const> owners,
                                    const SleepOptions& options = {});
  absl::StatusOr<SleepReport> Sleep(const Owner& owner, const SleepOptions& options = {}) {
    return Sleep({&owner}, options);
  }
  // Drops the host copies that a Sleep of these owners kept, of what can come back without them;
  // returns the host bytes given back. InvalidArgument, FailedPrecondition: as Sleep.
  absl::StatusOr<uint64_t> DropHostCopies(absl::Span<const Owner* const> owners);

  // Makes room for memory that is not the bank's: idle tensors of at least `bytes` leave the device.
  // False, and nothing has left, when there are not as many.
  bool Evict(uint64_t bytes);
  // Another budget from now on. What is idle leaves when more is in use; when that is not enough,
  // nothing leaves, the budget stays as it was, and ResourceExhausted names the largest holders. A
  // larger one lets in who waits for room.
  absl::Status SetBudget(uint64_t bytes);
  // Drops what nobody has owned or leased for at least `idle_for` (keep_unowned); returns the device bytes
  // given back.
  uint64_t Trim(std::chrono::steady_clock::duration idle_for = {});

  // Counts, of one moment. Cost: a walk over all tensors.
  BankTotals Totals() const;
  // What is known of one tensor at one moment: its residency, owners, leases, device bytes. Makes nothing
  // resident and counts as no use of it. NotFound for a uid that nobody registered or everybody released.
  // Cost: one hash look-up, and the lines in the answer.
  absl::StatusOr<TensorSnapshot> Inspect(Uid uid) const;
  // Everything, for bank-inspect (bank/bank_snapshot.h), of one moment. Cost: as Totals.
  BankSnapshot Snapshot() const;
  // Proves the books: see bank/books/audit.h. `other_device_bytes` is what others hold through the
  // same DeviceMemory (activation arenas, caches), as their allocations' reserved_bytes() say. Source
  // bytes are counted for the whole process: name the banks beside this one that may hold any, or
  // that share its DeviceMemory. Meant for a moment in which nothing is being loaded.
  AuditReport Audit(uint64_t other_device_bytes = 0,
                    absl::Span<const Bank* const> neighbours = {}) const;

 private:
  struct Core;
  explicit Bank(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BANK_H_

// Bank: one copy of every weight on the device, however many submodels use it.
//
//   std::shared_ptr<Bank> bank = Bank::Create(device_memory, {});
//   Owner prefill = bank->AddOwner("prefill");
//   for (LazyTensor& weight : prefill_weights)
//     NPUBANK_RETURN_IF_ERROR(bank->Register(prefill, weight, "layers.0.wq").status());
//   NPUBANK_RETURN_IF_ERROR(bank->EvaluateAndAllocate(prefill, {}));
//   NPUBANK_ASSIGN_OR_RETURN(Lease lease, bank->Get(weight.uid()));
//   graph.SetArgument(0, lease.address());
//
// Register: the first time a uid is seen the bank keeps the recipe; after that (a hit) the incoming
// tensor is detached at once. EvaluateAndAllocate: each tensor of the owner that is not resident
// yet is allocated on the device, evaluated straight into it, published, and its recipe detached;
// one evaluation per uid, whoever asks, and the others wait for it and get the same Status. Get: a
// lease on a resident tensor; waits for one that is being evaluated and evaluates one that is not.
//
// Ownership: an Owner (one per submodel) keeps its tensors known; dropping it releases them, and a
// uid without owner or lease gives its device bytes back. A Lease pins: while it lives the bytes do
// not move, also after its owner is gone. Owners and leases keep the bank alive.
// Threads: every method, from any thread. Nothing slow happens under a lock. Evaluation and
// allocation order is registration order.
// Errors: each names the tensor. A failed evaluation leaves no allocation, the tensor keeps its
// recipe and the next EvaluateAndAllocate or Get tries again. AlreadyExists: two digests behind one
// uid; never shared.
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
#include "bank/audit.h"
#include "bank/device_memory.h"
#include "bank/lease.h"
#include "bank/owner.h"
#include "bank/snapshot.h"
#include "lazy_tensor/lazy_tensor.h"
#include "lazy_tensor/parallel.h"

namespace npubank {

struct BankOptions {
  // Threads for evaluation; null evaluates inline on the calling thread.
  std::shared_ptr<Workers> workers;
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

struct EvaluateAllOptions {
  std::function<void(const LoadProgress&)> progress;  // on the calling thread, after each tensor
  std::function<bool()> cancelled;                    // asked between tiles, from any worker
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
  uint64_t evaluations = 0;  // that succeeded
  uint64_t waits = 0;        // for the evaluation of another caller
};

class Bank : public std::enable_shared_from_this<Bank> {
 public:
  static std::shared_ptr<Bank> Create(std::shared_ptr<DeviceMemory> device, BankOptions options);
  ~Bank();

  Owner AddOwner(absl::string_view name);
  absl::StatusOr<Registration> Register(const Owner& owner, LazyTensor tensor,
                                        absl::string_view name);
  absl::Status EvaluateAndAllocate(const Owner& owner, const EvaluateAllOptions& options = {});
  absl::StatusOr<Lease> Get(Uid uid);
  // Copies [offset, offset + out.size()) of the tensor's device bytes to the host, as Get makes
  // them resident. OutOfRange beyond the end.
  absl::Status Read(Uid uid, uint64_t offset, absl::Span<std::byte> out);

  BankTotals Totals() const;
  // Everything, for bank-inspect.
  BankSnapshot Snapshot() const;
  // Proves the books: see audit.h. `other_device_bytes` is what others hold through the same
  // DeviceMemory (activation arenas, caches), as their allocations' reserved_bytes() say.
  AuditReport Audit(uint64_t other_device_bytes = 0) const;

 private:
  struct Core;
  explicit Bank(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BANK_H_

// Loader: makes one tensor resident, whatever that takes: wait, make room, evaluate or bring back,
// share.
//
//   NPUBANK_ASSIGN_OR_RETURN(Lease lease, loader.MakeResident(uid, cancelled));
//
// Errors: whatever the device, the source or the recipe says, in front of it the tensor's name;
// ResourceExhausted with the largest holders; nothing stays allocated. Threads: any.
#ifndef NPUBANK_BANK_LOADER_H_
#define NPUBANK_BANK_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/budget.h"
#include "npubank/bank/books/registry.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/evaluator.h"
#include "npubank/bank/files/cache_file.h"

namespace npubank {

class Loader {
 public:
  Loader(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Registry> registry,
         const BankOptions& options);

  using Cancelled = std::function<bool()>;
  absl::StatusOr<Lease> MakeResident(Uid uid, const Cancelled& cancelled) const;
  // What these tensors are going to import, told to the device once per load; kept until they are
  // resident.
  std::unique_ptr<ImportPlan> PlanImports(absl::Span<const OwnedTensor> tensors) const;
  uint64_t budget_used() const { return budget_->used(); }

 private:
  struct Loaded;
  struct Wanted;
  // Of those that are not resident.
  std::vector<Wanted> WantedOf(absl::Span<const OwnedTensor> tensors) const;
  // False: not in the cache, or not usable there.
  absl::StatusOr<bool> LoadFromCache(const Evaluation& evaluation, Loaded& loaded) const;
  void AddToCache(const Digest& cache_key, DeviceAllocation& memory) const;
  absl::StatusOr<Lease> Run(Evaluation& evaluation, const Cancelled& cancelled) const;
  absl::StatusOr<Loaded> Load(const Evaluation& evaluation, const Cancelled& cancelled) const;
  using MemoryOr = absl::StatusOr<std::shared_ptr<DeviceAllocation>>;
  // What can be imported takes no room; what cannot is placed.
  MemoryOr ImportOrPlace(uint64_t bytes, absl::FunctionRef<MemoryOr()> import,
                         absl::FunctionRef<MemoryOr()> produce) const;
  // On the device within the budget; evicts, and once more when the driver is out of memory.
  MemoryOr Place(uint64_t bytes, absl::FunctionRef<MemoryOr()> produce) const;
  absl::Status MakeRoom(Reservation& room, uint64_t bytes) const;
  Lease Publish(Evaluation& evaluation, Published published) const;
  // Empty for what is not shared.
  std::optional<Digest> ContentOf(DeviceAllocation* memory) const;

  std::shared_ptr<DeviceMemory> device_;
  std::shared_ptr<Registry> registry_;
  std::shared_ptr<Budget> budget_;
  Evaluator evaluator_;
  std::shared_ptr<CacheFile> cache_;  // or null
  bool share_content_;
  std::function<Digest(const Digest&)> content_hash_hook_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LOADER_H_

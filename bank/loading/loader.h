// Loader: makes tensors resident, whatever that takes: wait, make room, evaluate or bring back,
// share. A load is admitted as a whole and then walked, tensor after tensor:
//
//   NPUBANK_ASSIGN_OR_RETURN(AdmittedLoad load, loader.Admit(uids, "the load of 'a'", options));
//   for (size_t i = 0; i < uids.size(); ++i)
//     NPUBANK_RETURN_IF_ERROR(loader.MakeResident(uids[i], load.leases[i], load, cancelled));
//
// Admit waits as admission.h says. Errors: whatever the device, the source or the recipe says, in
// front of it the tensor's name; ResourceExhausted with the largest holders; nothing stays
// allocated. Threads: any.
#ifndef NPUBANK_BANK_LOADING_LOADER_H_
#define NPUBANK_BANK_LOADING_LOADER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/adopted_tensor.h"
#include "npubank/bank/bank_options.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/budget/admission.h"
#include "npubank/bank/books/budget/departures.h"
#include "npubank/bank/books/flights.h"
#include "npubank/bank/books/registry.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/loading/evaluator.h"
#include "npubank/bank/upstream.h"

namespace npubank {

// What an upstream has for a load, by the tensors' digests.
using LeasedUpstream = std::map<Digest, Upstream::Leased>;

// A load that may begin. Its leases go before its pass: who waits for it to end finds idle what its
// caller does not want to keep.
struct AdmittedLoad {
  std::unique_ptr<Admission::Pass> pass;
  std::unique_ptr<ImportPlan> imports;  // or null
  LeasedUpstream upstream;
  std::vector<Lease> leases;  // of what is resident already; empty ones of the rest
};

class Loader {
 public:
  Loader(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Books> books,
         const BankOptions& options);

  using Cancelled = std::function<bool()>;
  // `what` describes the load, for a refusal; empty: the tensor's name will do.
  absl::StatusOr<AdmittedLoad> Admit(absl::Span<const Uid> uids, absl::string_view what,
                                     const LoadOptions& options) const;
  // Does nothing when there is a lease.
  absl::Status MakeResident(Uid uid, Lease& lease, const AdmittedLoad& load,
                            const Cancelled& cancelled) const;
  Admission::Usage budget() const { return admission_->usage(); }
  absl::Status SetBudget(uint64_t bytes) const;
  // Contract: Bank::Adopt.
  absl::Status Adopt(Registry& registry, absl::Span<const AdoptedTensor> tensors,
                     std::unique_ptr<DeviceAllocation> memory) const;

 private:
  struct Loaded;
  // How a missing tensor will come, as far as that can be told before it does.
  struct Needs {
    uint64_t room = 0;
    std::vector<ImportRange> imports;  // what will be imported needs no room
  };
  void Plan(const MissingTensor& tensor, const LeasedUpstream& upstream, Needs& needs) const;
  // Its own file's pages, if that is how it will come.
  std::optional<ImportRange> RangeInItsFile(const MissingTensor& tensor) const;
  absl::StatusOr<LeasedUpstream> AskUpstream(absl::Span<const MissingTensor> missing,
                                             absl::string_view what,
                                             const LoadOptions& options) const;
  // Null: not from there.
  std::shared_ptr<DeviceAllocation> LoadFromUpstream(const Evaluation& evaluation,
                                                     const AdmittedLoad& load) const;
  std::optional<CachedBytes> FindInCache(const Digest& cache_key, uint64_t bytes) const;
  // What one who was not admitted does: evict or wait, and then ask again, or be refused.
  absl::Status AwaitRoom(uint64_t bytes, const Admission::Answer& answer, uint64_t departures,
                         FoundTensors& found, const Cancelled& cancelled) const;
  // False: not in the cache, or not usable there.
  absl::StatusOr<bool> LoadFromCache(const Evaluation& evaluation, Admission::Pass& pass,
                                     Loaded& loaded) const;
  void AddToCache(const Digest& digest, DeviceAllocation& memory) const;
  absl::StatusOr<Lease> Run(Evaluation& evaluation, const AdmittedLoad& load,
                            const Cancelled& cancelled) const;
  absl::StatusOr<Loaded> Load(const Evaluation& evaluation, const AdmittedLoad& load,
                              const Cancelled& cancelled) const;
  using MemoryOr = absl::StatusOr<std::shared_ptr<DeviceAllocation>>;
  // What can be imported takes no room; what cannot is placed.
  MemoryOr ImportOrPlace(uint64_t bytes, Admission::Pass& pass,
                         absl::FunctionRef<MemoryOr()> import,
                         absl::FunctionRef<MemoryOr()> produce) const;
  // On the device within the budget; evicts, and once more when the driver is out of memory.
  MemoryOr Place(uint64_t bytes, Admission::Pass& pass,
                 absl::FunctionRef<MemoryOr()> produce) const;
  // Evicts until the attempt says that nothing is missing, and never waits for another load.
  absl::Status MakeRoom(absl::FunctionRef<uint64_t()> missing_bytes) const;
  Lease Publish(Evaluation& evaluation, Published published) const;
  // Empty for what is not shared.
  std::optional<Digest> ContentOf(DeviceAllocation* memory, const MemoryHints& hints) const;

  std::shared_ptr<DeviceMemory> device_;
  std::shared_ptr<Books> books_;
  Flights flights_;
  Departures departures_;
  std::shared_ptr<Admission> admission_;
  Evaluator evaluator_;
  std::shared_ptr<CacheFile> cache_;    // or null
  std::shared_ptr<Upstream> upstream_;  // or null
  bool share_content_;
  std::function<Digest(const Digest&)> content_hash_hook_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LOADING_LOADER_H_

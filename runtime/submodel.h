// Submodel: one compiled submodel, its closures registered in a bank, ready to be run.
//
//   NPUBANK_ASSIGN_OR_RETURN(Submodel prefill, Submodel::Load(bank, description, ""));
//   NPUBANK_RETURN_IF_ERROR(prefill.MakeFunctions(device));           // the driver is asked: does it fit?
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<Lease> leases, bank->Load(prefill.owner()));
//   NPUBANK_RETURN_IF_ERROR(Submodel::Pin({&prefill, 1}, leases));    // its weights stay now
//   NPUBANK_RETURN_IF_ERROR(prefill.Record(device, queue, places));   // calls recorded
//   NPUBANK_RETURN_IF_ERROR(prefill.Run(queue));                      // as often as wanted
//   prefill.Unpin();                                                  // its weights may leave now
//
// Load registers every weight of the description with the bank under an owner of its own, so what
// another submodel has brought is a hit and costs nothing. They are only described (lazy_tensor.h):
// no recipe is made and no file opened before the bank evaluates, nor for a hit ever. The recipes'
// index is also the way back of what leaves the device.
//
// MakeFunctions makes graphs of the functions, asks the driver what each takes, and refuses what
// does not fit. Before the bank's load, a misfit costs no evaluation; Record does it where nobody
// has.
//
// Ownership: owns its owner, leases, graphs and command list; dropping it releases all of them.
// What Record was given must outlive it, or the next Unpin. Threads: one at a time. Errors: those
// of SubmodelDescription, the bank and the driver, naming submodel and tensor, or call and
// argument. A failed MakeFunctions, Record or Pin can be tried again.
#ifndef NPUBANK_RUNTIME_SUBMODEL_H_
#define NPUBANK_RUNTIME_SUBMODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/bank.h"
#include "npubank/runtime/driver_function.h"
#include "npubank/runtime/level_zero/commands.h"
#include "npubank/runtime/submodel_description.h"

namespace npubank {

class Submodel {
 public:
  // Where the values that live outside the submodel are: device addresses.
  struct Places {
    void* arena = nullptr;  // at least description().arena_bytes
    // By name: inputs, outputs and states.
    std::function<absl::StatusOr<void*>(const SubmodelDescription::Value& value)> value;
  };

  // `model` stands in front of the owner's name; empty: just the submodel's.
  static absl::StatusOr<Submodel> Load(std::shared_ptr<Bank> bank, SubmodelDescription description,
                                       absl::string_view model);
  Submodel(Submodel&&) = default;
  Submodel& operator=(Submodel&&) = delete;

  const SubmodelDescription& description() const { return description_; }
  const std::string& name() const { return description_.name; }
  // "submodel 'prefill'": how messages about it begin.
  std::string Title() const { return absl::StrCat("submodel '", name(), "'"); }
  const Owner& owner() const { return owner_; }
  struct Weight {
    Uid uid;
    uint64_t bytes = 0;
  };
  absl::Span<const Weight> weights() const { return weights_; }
  // What registering found.
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t hits() const { return hits_; }
  uint64_t hit_bytes() const { return hit_bytes_; }
  // Calls that are bound to at least one weight.
  uint64_t closures() const;

  // Idempotent until Unpin.
  absl::Status MakeFunctions(std::shared_ptr<level_zero::Device> device);
  // Each keeps the leases of its weights, which are among these: of one load of all their owners, in
  // any order. FailedPrecondition, naming submodel and weight, when one is missing; none has changed
  // then.
  static absl::Status Pin(absl::Span<Submodel> submodels, absl::Span<const Lease> leases);
  // Lets go of the recorded calls, the graphs and the leases.
  void Unpin();
  absl::Status Record(std::shared_ptr<level_zero::Device> device, level_zero::CommandQueue& queue,
                      const Places& places);
  bool recorded() const { return list_.has_value(); }
  // Runs the recorded calls and waits for them.
  absl::Status Run(level_zero::CommandQueue& queue);

 private:
  Submodel() = default;
  absl::Status RegisterWeights();
  // Of the description's weights, in order.
  absl::StatusOr<std::vector<Lease>> LeasesAmong(
      const absl::flat_hash_map<uint64_t, const Lease*>& by_uid) const;
  absl::Status InitializeFunctions(level_zero::CommandQueue& queue);
  absl::StatusOr<void*> Resolve(const SubmodelDescription::Argument& argument,
                                const Places& places) const;
  absl::Status RecordCall(const SubmodelDescription::Call& call, const Places& places,
                          level_zero::CommandList& list);

  std::shared_ptr<Bank> bank_;
  SubmodelDescription description_;
  Owner owner_;
  std::vector<Weight> weights_;  // of the description's, in order
  uint64_t weight_bytes_ = 0;
  uint64_t hits_ = 0;
  uint64_t hit_bytes_ = 0;
  std::vector<Lease> leases_;  // of the description's weights, in order
  // The list refers to the functions' graphs, and both to leased memory: destroyed in reverse.
  std::vector<DriverFunction> functions_;
  std::optional<level_zero::CommandList> list_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_SUBMODEL_H_

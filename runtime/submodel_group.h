// SubmodelGroup: submodels that run one at a time, and what running them takes beside their
// weights: one arena, a host buffer for each input and output, and states that stay from run to
// run.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto group, SubmodelGroup::Register(npu, bank, {description}, ""));
//   NPUBANK_RETURN_IF_ERROR(group->MakeFunctions());     // refuses what does not fit, before any evaluation
//   NPUBANK_RETURN_IF_ERROR(group->Prepare());           // weights, then arena, buffers and states
//   std::memcpy(group->Buffer("x").data(), x.data(), bytes);
//   NPUBANK_RETURN_IF_ERROR(group->Run(0));
//   Use(group->Buffer("y"));
//
// Values of equal names are one across submodels: a state goes on where another submodel left it,
// and what one gives as an output another takes as an input. Buffers are as large as the largest
// value of their name, states must agree in type. Arena, buffers and states come after the last
// weight, so the peak is max(W + window, W + A).
//
// Between turns:
//                weights                     arena, buffers, calls   states
//   Pause        stay, may leave for others  given back              stay
//   Sleep        leave                       given back              given back
//   Wake         come back, and stay
//   Prepare      as Wake                     made                    made if they are not there; what they
//                                                                    hold then is not defined: SetStates
//
// Weights that are imported are the pages of a file, which others may change: each Run begins with
// one fstat per such file, and is DataLoss when one was truncated or written to
// (runtime/memory/imported_files.h).
//
// Ownership: owns its submodels and memory. Threads: one at a time. Errors: those of Submodel,
// naming it; InvalidArgument for submodels that do not belong together; FailedPrecondition before
// Prepare; ResourceExhausted when the device has no room. What fails leaves the group as it was.
#ifndef NPUBANK_RUNTIME_SUBMODEL_GROUP_H_
#define NPUBANK_RUNTIME_SUBMODEL_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/device_memory.h"
#include "npubank/runtime/level_zero/buffer.h"
#include "npubank/runtime/level_zero/commands.h"
#include "npubank/runtime/memory/imported_files.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/submodel.h"

namespace npubank {

class SubmodelGroup {
 public:
  // `model` stands in front of the owners' names, "NAME/prefill"; empty: nothing does.
  static absl::StatusOr<std::unique_ptr<SubmodelGroup>> Register(
      std::shared_ptr<Npu> npu, std::shared_ptr<Bank> bank,
      std::vector<SubmodelDescription> descriptions, absl::string_view model);

  // Asks the driver whether its functions fit (submodel.h), and whether places in the arena lie as the
  // device wants addresses. InvalidArgument naming call and argument, or value.
  absl::Status MakeFunctions();
  absl::Status Wake(const LoadOptions& options = {});
  // All of it, or none. Idempotent.
  absl::Status Prepare();
  // One submodel, by its place among the descriptions; returns when it is done.
  absl::Status Run(size_t submodel);
  void Pause();
  absl::StatusOr<SleepReport> Sleep(const SleepOptions& options = {});

  // The memory of an input or output, until the next Pause or Sleep; empty before Prepare and for
  // other names.
  absl::Span<std::byte> Buffer(absl::string_view name) const;
  // Every state anew: those named with these bytes, the others with zeros. After Prepare.
  // InvalidArgument for a name that is no state, or bytes that are not as many as it has.
  absl::Status SetStates(const std::map<std::string, std::string>& bytes);
  // NotFound for a name that is no state.
  absl::StatusOr<std::string> ReadState(const std::string& name) const;

  absl::Span<const Submodel> submodels() const { return submodels_; }
  bool awake() const { return awake_; }
  // How long the bank took to make the weights resident, the last time that it was asked to.
  double wake_seconds() const { return wake_seconds_; }
  // The largest of the submodels' arenas.
  uint64_t arena_bytes() const { return arena_bytes_; }
  uint64_t state_bytes() const { return state_bytes_; }
  // What this group holds of the DeviceMemory beside weights: arena and states, as rounded.
  uint64_t device_bytes() const;

 private:
  using Value = SubmodelDescription::Value;
  struct State {
    TensorType type;
    uint64_t offset = 0;  // in the states' memory
  };
  // What running needs beside weights and states; allocated together, or not at all.
  struct Workspace {
    std::unique_ptr<DeviceAllocation> arena;
    std::map<std::string, level_zero::Buffer, std::less<>> buffers;
    level_zero::CommandQueue queue;
  };

  SubmodelGroup() = default;
  absl::Status Add(Submodel submodel);
  absl::Status AddState(const Value& value);
  std::vector<const Owner*> Owners() const;
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view what) const;
  absl::StatusOr<std::unique_ptr<Workspace>> MakeWorkspace() const;
  absl::StatusOr<void*> Place(const Value& value) const;

  std::shared_ptr<Npu> npu_;
  std::shared_ptr<Bank> bank_;
  std::string model_;  // in messages
  uint64_t arena_bytes_ = 0;
  uint64_t state_bytes_ = 0;
  std::map<std::string, uint64_t> buffer_bytes_;  // by the name of an input or output
  std::map<std::string, State> states_;
  bool awake_ = false;  // every weight is leased
  double wake_seconds_ = 0;

  std::unique_ptr<DeviceAllocation> state_memory_;
  std::unique_ptr<Workspace> workspace_;
  // After the workspace, so that they go before it: their command lists refer to it.
  std::vector<Submodel> submodels_;
  ImportedFiles imported_;  // of the submodels' leases
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_SUBMODEL_GROUP_H_

#include "bank/bank.h"

#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "bank/evaluator.h"
#include "bank/registry.h"
#include "bank/report.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {

struct Bank::Core {
  std::shared_ptr<DeviceMemory> device;
  std::shared_ptr<Registry> registry;
  Evaluator evaluator;

  absl::Status CheckOwner(const Owner& owner, absl::string_view what) const {
    if (owner.BelongsTo(registry.get())) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": this owner was not added to this bank, or was released"));
  }

  absl::StatusOr<Lease> MakeResident(Uid uid, const std::function<bool()>& cancelled) const {
    NPUBANK_ASSIGN_OR_RETURN(Acquired acquired, registry->Acquire(uid));
    if (auto* lease = std::get_if<Lease>(&acquired)) return std::move(*lease);
    return Run(*std::get<std::unique_ptr<Evaluation>>(acquired), cancelled);
  }

  absl::StatusOr<Lease> Run(Evaluation& evaluation, const std::function<bool()>& cancelled) const {
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<std::shared_ptr<DeviceAllocation>> memory =
        evaluator.Evaluate(evaluation.recipe(), evaluation.name(),
                           [&] { return evaluation.abandoned() || (cancelled && cancelled()); });
    if (!memory.ok()) {
      evaluation.Fail(memory.status());
      return memory.status();
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return evaluation.Publish(*std::move(memory), taken.count());
  }
};

Bank::Bank(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Bank::~Bank() = default;

std::shared_ptr<Bank> Bank::Create(std::shared_ptr<DeviceMemory> device, BankOptions options) {
  auto registry = std::make_shared<Registry>(device);
  Evaluator evaluator(device, std::move(options.workers));
  return std::shared_ptr<Bank>(new Bank(
      std::make_shared<Core>(Core{std::move(device), std::move(registry), std::move(evaluator)})));
}

Owner Bank::AddOwner(absl::string_view name) {
  return Owner(core_->registry, core_->registry->AddOwner(name), std::string(name));
}

absl::StatusOr<Registration> Bank::Register(const Owner& owner, LazyTensor tensor,
                                            absl::string_view name) {
  NPUBANK_RETURN_IF_ERROR(core_->CheckOwner(owner, absl::StrCat("registering '", name, "'")));
  return core_->registry->Register(owner.id(), std::move(tensor), name);
}

absl::Status Bank::EvaluateAndAllocate(const Owner& owner, const EvaluateAllOptions& options) {
  NPUBANK_RETURN_IF_ERROR(core_->CheckOwner(owner, "evaluating"));
  const uint64_t id = owner.id();
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnedTensor> tensors, core_->registry->TensorsOf(id));
  LoadProgress progress;
  for (const OwnedTensor& tensor : tensors) {
    if (!tensor.resident) progress.bytes_total += tensor.bytes;
  }
  std::vector<Lease> leases;  // what is loaded stays until all of it is
  leases.reserve(tensors.size());
  for (const OwnedTensor& tensor : tensors) {
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError(absl::StrCat("cancelled before tensor '", tensor.name, "'"));
    }
    absl::StatusOr<Lease> lease = core_->MakeResident(tensor.uid, options.cancelled);
    if (!core_->registry->HasOwner(id)) {
      return absl::CancelledError(
          absl::StrCat("the owner was released while tensor '", tensor.name, "' was loading"));
    }
    NPUBANK_RETURN_IF_ERROR(lease.status());
    leases.push_back(*std::move(lease));
    if (tensor.resident) continue;
    progress.bytes_done += tensor.bytes;
    progress.tensor = tensor.name;
    if (options.progress) options.progress(progress);
  }
  return absl::OkStatus();
}

absl::StatusOr<Lease> Bank::Get(Uid uid) { return core_->MakeResident(uid, {}); }

absl::Status Bank::Read(Uid uid, uint64_t offset, absl::Span<std::byte> out) {
  NPUBANK_ASSIGN_OR_RETURN(const Lease lease, Get(uid));
  const uint64_t bytes = lease.type().bytes();
  if (offset > bytes || out.size() > bytes - offset) {
    return absl::OutOfRangeError(absl::StrCat("reading [", offset, ", +", out.size(), ") of uid ",
                                              uid.ToHex(), ", which has ", bytes, " bytes"));
  }
  if (out.empty()) return absl::OkStatus();
  return core_->device->Read(*core_->registry->MemoryOf(lease), offset, out);
}

BankTotals Bank::Totals() const { return TotalsOf(*core_->registry); }

BankSnapshot Bank::Snapshot() const { return SnapshotOf(*core_->registry, *core_->device); }

AuditReport Bank::Audit(uint64_t other_device_bytes) const {
  return AuditBooks(*core_->registry, *core_->device, other_device_bytes);
}

}  // namespace npubank

#include "bank/bank.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bank/loader.h"
#include "bank/registry.h"
#include "bank/report.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {

struct Bank::Core {
  std::shared_ptr<DeviceMemory> device;
  std::shared_ptr<Registry> registry;
  Loader loader;

  absl::Status CheckOwner(const Owner& owner, absl::string_view what) const {
    if (owner.BelongsTo(registry.get())) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": this owner was not added to this bank, or was released"));
  }
};

Bank::Bank(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Bank::~Bank() = default;

std::shared_ptr<Bank> Bank::Create(std::shared_ptr<DeviceMemory> device, BankOptions options) {
  auto registry = std::make_shared<Registry>(device, options.keep_unowned);
  Loader loader(device, registry, options);
  return std::shared_ptr<Bank>(new Bank(
      std::make_shared<Core>(Core{std::move(device), std::move(registry), std::move(loader)})));
}

Owner Bank::AddOwner(absl::string_view name, OwnerOptions options) {
  const uint64_t id = core_->registry->AddOwner(name, std::move(options.resolver));
  return Owner(core_->registry, id, std::string(name));
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
  core_->registry->BeginLoad();
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
    absl::StatusOr<Lease> lease = core_->loader.MakeResident(tensor.uid, options.cancelled);
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

absl::StatusOr<Lease> Bank::Get(Uid uid) { return core_->loader.MakeResident(uid, {}); }

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

absl::StatusOr<SleepReport> Bank::Sleep(const Owner& owner, const SleepOptions& options) {
  NPUBANK_RETURN_IF_ERROR(core_->CheckOwner(owner, "putting to sleep"));
  NPUBANK_RETURN_IF_ERROR(core_->registry->SetAsleep(owner.id(), true));
  if (options.keep_host_copy) NPUBANK_RETURN_IF_ERROR(KeepHostCopies(owner));
  return core_->registry->EvictAsleep(owner.id());
}

absl::Status Bank::KeepHostCopies(const Owner& owner) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnedTensor> tensors,
                           core_->registry->TensorsOf(owner.id()));
  for (const OwnedTensor& tensor : tensors) {
    if (!tensor.resident || tensor.bytes == 0) continue;
    NPUBANK_ASSIGN_OR_RETURN(const Lease lease, Get(tensor.uid));
    auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes);
    NPUBANK_RETURN_IF_ERROR(
        Annotate(core_->device->Read(*core_->registry->MemoryOf(lease), 0, absl::MakeSpan(*bytes)),
                 absl::StrCat("keeping a copy of tensor '", tensor.name, "'")));
    core_->registry->KeepHostCopy(lease, std::move(bytes));
  }
  return absl::OkStatus();
}

absl::Status Bank::Wake(const Owner& owner, const EvaluateAllOptions& options) {
  NPUBANK_RETURN_IF_ERROR(core_->CheckOwner(owner, "waking"));
  NPUBANK_RETURN_IF_ERROR(core_->registry->SetAsleep(owner.id(), false));
  return EvaluateAndAllocate(owner, options);
}

uint64_t Bank::Trim() { return core_->registry->Trim(); }

BankTotals Bank::Totals() const {
  BankTotals totals = TotalsOf(*core_->registry);
  totals.budget_used = core_->loader.budget_used();
  return totals;
}

BankSnapshot Bank::Snapshot() const { return SnapshotOf(*core_->registry, *core_->device); }

AuditReport Bank::Audit(uint64_t other_device_bytes) const {
  return AuditBooks(*core_->registry, *core_->device, other_device_bytes);
}

}  // namespace npubank

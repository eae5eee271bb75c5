#include "npubank/bank/bank.h"

#include <new>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/books/registry.h"
#include "npubank/bank/books/report.h"
#include "npubank/bank/loader.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// A tensor that was loaded by itself: its lease keeps its owner.
class OwnedTensorPin final : public Lease::Pin {
 public:
  OwnedTensorPin(Owner owner, Lease lease) : owner_(std::move(owner)), lease_(std::move(lease)) {}
  void* address() const override { return lease_.address(); }
  const TensorType& type() const override { return lease_.type(); }
  Uid uid() const override { return lease_.uid(); }

 private:
  Owner owner_;
  Lease lease_;
};

}  // namespace

struct Bank::Core {
  std::shared_ptr<DeviceMemory> device;
  std::shared_ptr<Registry> registry;
  Loader loader;

  absl::Status CheckOwner(const Owner& owner, absl::string_view what) const {
    if (owner.BelongsTo(registry.get())) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": this owner was not added to this bank, or was released"));
  }
  absl::StatusOr<std::vector<uint64_t>> IdsOf(absl::Span<const Owner* const> owners,
                                              absl::string_view what) const;
  absl::StatusOr<std::vector<OwnedTensor>> TensorsOf(absl::Span<const uint64_t> owners) const;
  using Leases = absl::StatusOr<std::vector<Lease>>;
  Leases Load(absl::Span<const uint64_t> owners, const LoadOptions& options) const;
  Leases LoadAll(absl::Span<const uint64_t> owners, const LoadOptions& options) const;
  absl::StatusOr<HostCopies> CopyToHost(absl::Span<const uint64_t> owners) const;
};

absl::StatusOr<std::vector<uint64_t>> Bank::Core::IdsOf(absl::Span<const Owner* const> owners,
                                                        absl::string_view what) const {
  std::vector<uint64_t> ids;
  for (const Owner* owner : owners) {
    NPUBANK_RETURN_IF_ERROR(CheckOwner(*owner, what));
    ids.push_back(owner->id());
  }
  return ids;
}

// Owner after owner, each in the order it registered; each tensor once.
absl::StatusOr<std::vector<OwnedTensor>> Bank::Core::TensorsOf(
    absl::Span<const uint64_t> owners) const {
  std::vector<OwnedTensor> all;
  absl::flat_hash_set<uint64_t> seen;
  for (const uint64_t owner : owners) {
    NPUBANK_ASSIGN_OR_RETURN(std::vector<OwnedTensor> tensors, registry->TensorsOf(owner));
    for (OwnedTensor& tensor : tensors) {
      if (seen.insert(tensor.uid.value).second) all.push_back(std::move(tensor));
    }
  }
  return all;
}

// Of what will leave, shared bytes once. Nothrow: of all that is allocated here this is what memory
// may be too small for.
absl::StatusOr<HostCopies> Bank::Core::CopyToHost(absl::Span<const uint64_t> owners) const {
  HostCopies copies;
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<LeavingBytes> leaving, registry->LeavingWith(owners));
  for (const LeavingBytes& from : leaving) {
    const std::string what = absl::StrCat("keeping a copy of tensor '", from.name, "'");
    const uint64_t size = from.lease.type().bytes();
    const std::shared_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[size]);
    if (bytes == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what, ": the host has no room for ", size, " bytes: sleep without copies"));
    }
    NPUBANK_RETURN_IF_ERROR(Annotate(
        device->Read(*registry->MemoryOf(from.lease), 0, absl::MakeSpan(bytes.get(), size)), what));
    for (const Uid tensor : from.tensors) copies[tensor.value] = bytes;
  }
  return copies;
}

Bank::Bank(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Bank::~Bank() = default;

std::shared_ptr<Bank> Bank::Create(std::shared_ptr<DeviceMemory> device, BankOptions options) {
  auto registry = std::make_shared<Registry>(device, options.keep_unowned);
  Loader loader(device, registry, options);
  return std::shared_ptr<Bank>(new Bank(
      std::make_shared<Core>(Core{std::move(device), std::move(registry), std::move(loader)})));
}

Owner Bank::AddOwner(absl::string_view name, OwnerOptions options) {
  const uint64_t id = core_->registry->AddOwner(name, std::move(options.index));
  return Owner(core_->registry, id, std::string(name));
}

absl::StatusOr<Registration> Bank::Register(const Owner& owner, LazyTensor tensor,
                                            absl::string_view name) {
  NPUBANK_RETURN_IF_ERROR(core_->CheckOwner(owner, absl::StrCat("registering '", name, "'")));
  Description way_back = tensor.description();
  const RecipePtr recipe = tensor.recipe();
  const std::shared_ptr<const SourceIndex> index = core_->registry->IndexOf(owner.id());
  if (recipe != nullptr && index != nullptr) {
    // Without it the tensor simply stays.
    if (auto described = RecipeList::Of(recipe, index); described.ok()) {
      way_back = {*std::move(described), 0};
    }
  }
  return core_->registry->Register(owner.id(), std::move(tensor), name, std::move(way_back));
}

absl::StatusOr<std::vector<Lease>> Bank::Load(absl::Span<const Owner* const> owners,
                                              const LoadOptions& options) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, core_->IdsOf(owners, "loading"));
  Core::Leases leases = core_->Load(ids, options);
  core_->device->Trim();  // staging rings, and what a failed load has freed
  return leases;
}

absl::StatusOr<Lease> Bank::Load(absl::string_view name, LazyTensor tensor,
                                 const LoadOptions& options) {
  Owner owner = AddOwner(name);
  NPUBANK_RETURN_IF_ERROR(Register(owner, std::move(tensor), name).status());
  NPUBANK_ASSIGN_OR_RETURN(std::vector<Lease> leases, Load(owner, options));
  return Lease(std::make_shared<OwnedTensorPin>(std::move(owner), std::move(leases.front())));
}

Bank::Core::Leases Bank::Core::Load(absl::Span<const uint64_t> ids,
                                    const LoadOptions& options) const {
  NPUBANK_RETURN_IF_ERROR(registry->BeginLoad(ids));
  Leases leases = LoadAll(ids, options);
  registry->EndLoad(ids, leases.ok());  // what sleepers brought back before a failure goes again
  return leases;
}

Bank::Core::Leases Bank::Core::LoadAll(absl::Span<const uint64_t> ids,
                                       const LoadOptions& options) const {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<OwnedTensor> tensors, TensorsOf(ids));
  std::vector<SourceIndex::Use> uses;  // a file is opened once for all of the load
  for (const uint64_t id : ids) uses.emplace_back(registry->IndexOf(id));
  LoadProgress progress;
  for (const OwnedTensor& tensor : tensors) {
    if (!tensor.resident) progress.bytes_total += tensor.bytes;
  }
  const std::unique_ptr<ImportPlan> imports = loader.PlanImports(tensors);
  std::vector<Lease> leases;
  leases.reserve(tensors.size());
  for (const OwnedTensor& tensor : tensors) {
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError(absl::StrCat("cancelled before tensor '", tensor.name, "'"));
    }
    absl::StatusOr<Lease> lease = loader.MakeResident(tensor.uid, options.cancelled);
    for (const uint64_t id : ids) {
      if (registry->HasOwner(id)) continue;
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
  return leases;
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

// Copies are made before anybody is put to sleep: when one fails, nobody is.
absl::StatusOr<SleepReport> Bank::Sleep(absl::Span<const Owner* const> owners,
                                        const SleepOptions& options) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids,
                           core_->IdsOf(owners, "putting to sleep"));
  HostCopies copies;
  if (options.keep_host_copy) {
    NPUBANK_ASSIGN_OR_RETURN(copies, core_->CopyToHost(ids));
  }
  absl::StatusOr<SleepReport> report = core_->registry->PutToSleep(ids, std::move(copies));
  core_->device->Trim();
  return report;
}

bool Bank::Evict(uint64_t bytes) {
  const bool evicted = core_->registry->EvictFor(bytes);
  core_->device->Trim();
  return evicted;
}

uint64_t Bank::Trim() {
  const uint64_t bytes = core_->registry->Trim();
  core_->device->Trim();
  return bytes;
}

BankTotals Bank::Totals() const {
  BankTotals totals = TotalsOf(*core_->registry);
  totals.budget_used = core_->loader.budget_used();
  return totals;
}

BankSnapshot Bank::Snapshot() const { return SnapshotOf(*core_->registry, *core_->device); }

AuditReport Bank::Audit(uint64_t other_device_bytes,
                        absl::Span<const Bank* const> neighbours) const {
  const auto audited = [](const Bank& bank) {
    return AuditedBank{.registry = bank.core_->registry.get(), .device = bank.core_->device.get()};
  };
  std::vector<AuditedBank> beside;
  for (const Bank* bank : neighbours) beside.push_back(audited(*bank));
  return AuditBooks(audited(*this), other_device_bytes, beside);
}

}  // namespace npubank

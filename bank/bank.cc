#include "npubank/bank/bank.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/budget/departures.h"
#include "npubank/bank/books/registry.h"
#include "npubank/bank/books/report.h"
#include "npubank/bank/books/sleepers.h"
#include "npubank/bank/checked_memory.h"
#include "npubank/bank/loading/load_walk.h"
#include "npubank/bank/loading/loader.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// A tensor that was loaded by itself: its lease keeps its owner.
class OwnedTensorPin final : public Lease::Pin {
 public:
  OwnedTensorPin(Owner owner, std::shared_ptr<const Lease::Pin> pin)
      : owner_(std::move(owner)), pin_(std::move(pin)) {}
  DeviceAllocation* memory() const override { return pin_->memory(); }
  const TensorType& type() const override { return pin_->type(); }
  Uid uid() const override { return pin_->uid(); }
  const Digest& stamp() const override { return pin_->stamp(); }

 private:
  Owner owner_;
  std::shared_ptr<const Lease::Pin> pin_;  // goes first
};

// What a bank has that was given none.
class NoDeviceMemory final : public DeviceMemory {
 public:
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t, absl::string_view) override {
    return Missing();
  }
  absl::Status Write(DeviceAllocation&, ProduceBytes) override { return Missing(); }
  absl::Status Read(DeviceAllocation&, uint64_t, absl::Span<std::byte>) override {
    return Missing();
  }
  DeviceUsage Usage() const override { return {}; }
  absl::StatusOr<uint64_t> DriverBytes() const override { return Missing(); }

 private:
  static absl::Status Missing() {
    return absl::FailedPreconditionError(
        "this bank was made without a device memory: give Bank::Create one");
  }
};

}  // namespace

struct Bank::Core {
  std::shared_ptr<CheckedMemory> device;
  std::shared_ptr<Books> books;
  std::shared_ptr<Registry> registry;
  Sleepers sleepers;
  Departures departures;
  Loader loader;
  uint64_t driver_bytes_before = 0;  // before any weight of this bank

  absl::Status CheckOwner(const Owner* owner, absl::string_view what) const {
    if (owner != nullptr && owner->BelongsTo(registry.get())) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": this owner was not added to this bank, or was released"));
  }
  // What of them is more than every address has; an error where the memory cannot do it.
  absl::StatusOr<MemoryHints> CheckHints(MemoryHints hints) const {
    if ((hints.alignment & (hints.alignment - 1)) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("an alignment of ", hints.alignment, ": it is a power of two"));
    }
    if (hints.alignment <= device->traits().argument_alignment) hints.alignment = 0;
    if (hints != MemoryHints()) NPUBANK_RETURN_IF_ERROR(device->CheckHints(hints));
    return hints;
  }
  absl::StatusOr<std::vector<uint64_t>> IdsOf(absl::Span<const Owner* const> owners,
                                              absl::string_view what) const;
  // The leases go with the load where nobody wants them.
  absl::Status Load(absl::Span<const Owner* const> owners, const LoadOptions& options,
                    std::vector<Lease>* leases) const;
  absl::StatusOr<HostCopies> CopyToHost(absl::Span<const uint64_t> owners) const;
};

absl::StatusOr<std::vector<uint64_t>> Bank::Core::IdsOf(absl::Span<const Owner* const> owners,
                                                        absl::string_view what) const {
  std::vector<uint64_t> ids;
  for (const Owner* owner : owners) {
    NPUBANK_RETURN_IF_ERROR(CheckOwner(owner, what));
    ids.push_back(owner->id());
  }
  return ids;
}

// Of what will leave, shared bytes once. Nothrow: of all that is allocated here this is what memory
// may be too small for.
absl::StatusOr<HostCopies> Bank::Core::CopyToHost(absl::Span<const uint64_t> owners) const {
  HostCopies copies;
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<LeavingBytes> leaving, sleepers.LeavingWith(owners));
  for (const LeavingBytes& from : leaving) {
    const std::string what = absl::StrCat("keeping a copy of tensor '", from.name, "'");
    const uint64_t size = from.lease.type().bytes();
    std::byte* const room = new (std::nothrow) std::byte[size];
    if (room == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what, ": the host has no room for ", size, " bytes: sleep without copies"));
    }
    auto live = std::make_shared<LiveObject>("host copy of tensor", from.name);
    const std::shared_ptr<std::byte[]> bytes(
        room, [live = std::move(live)](std::byte* copy) { delete[] copy; });
    NPUBANK_RETURN_IF_ERROR(Annotate(
        device->Read(*books->MemoryOf(from.lease), 0, absl::MakeSpan(bytes.get(), size)), what));
    for (const Uid tensor : from.tensors) copies[tensor.value] = bytes;
  }
  return copies;
}

Bank::Bank(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Bank::~Bank() = default;

std::shared_ptr<Bank> Bank::Create(std::shared_ptr<DeviceMemory> memory, BankOptions options) {
  if (memory == nullptr) memory = std::make_shared<NoDeviceMemory>();
  auto device = std::make_shared<CheckedMemory>(std::move(memory));
  auto books = std::make_shared<Books>(device, options.keep_unowned);
  return std::shared_ptr<Bank>(
      new Bank(std::make_shared<Core>(Core{.device = device,
                                           .books = books,
                                           .registry = std::make_shared<Registry>(books),
                                           .sleepers = Sleepers(books),
                                           .departures = Departures(books),
                                           .loader = Loader(device, books, options),
                                           .driver_bytes_before = UnaskedDriverBytes(*device)})));
}

Owner Bank::AddOwner(absl::string_view name, OwnerOptions options) {
  const uint64_t id = core_->registry->AddOwner(name, std::move(options.index));
  return Owner(core_->registry, id, std::string(name));
}

absl::StatusOr<Registration> Bank::Register(const Owner& owner, LazyTensor tensor,
                                            absl::string_view name, const MemoryHints& hints) {
  const std::string what = absl::StrCat("registering '", name, "'");
  NPUBANK_RETURN_IF_ERROR(core_->CheckOwner(&owner, what));
  absl::StatusOr<MemoryHints> asked = core_->CheckHints(hints);
  if (!asked.ok()) return Annotate(asked.status(), what);
  Description way_back = tensor.description();
  const RecipePtr recipe = tensor.recipe();
  const std::shared_ptr<const SourceIndex> index = core_->registry->IndexOf(owner.id());
  if (recipe != nullptr && index != nullptr) {
    // Without it the tensor simply stays.
    if (auto described = RecipeList::Of(recipe, index); described.ok()) {
      way_back = {*std::move(described), 0};
    }
  }
  return core_->registry->Register(owner.id(), std::move(tensor), name, std::move(way_back), *asked);
}

absl::StatusOr<std::vector<Lease>> Bank::Load(absl::Span<const Owner* const> owners,
                                              const LoadOptions& options) {
  std::vector<Lease> leases;
  NPUBANK_RETURN_IF_ERROR(core_->Load(owners, options, &leases));
  return leases;
}

absl::Status Bank::EvaluateAndAllocate(absl::Span<const Owner* const> owners,
                                       const LoadOptions& options) {
  return core_->Load(owners, options, nullptr);
}

absl::StatusOr<Lease> Bank::Load(absl::string_view name, LazyTensor tensor,
                                 const LoadOptions& options) {
  Owner owner = AddOwner(name);
  NPUBANK_RETURN_IF_ERROR(Register(owner, std::move(tensor), name).status());
  NPUBANK_ASSIGN_OR_RETURN(std::vector<Lease> leases, Load(owner, options));
  return Lease(std::make_shared<OwnedTensorPin>(std::move(owner), leases.front().pin()));
}

absl::Status Bank::Core::Load(absl::Span<const Owner* const> owners, const LoadOptions& options,
                              std::vector<Lease>* leases) const {
  for (const Owner* owner : owners) NPUBANK_RETURN_IF_ERROR(CheckOwner(owner, "loading"));
  absl::Status status;
  {
    LoadWalk walk(*registry, sleepers, loader, owners);
    status = walk.Run(options);
    if (status.ok() && leases != nullptr) *leases = walk.TakeLeases();
  }
  device->Trim();  // staging rings, and what a failed load has freed
  return status;
}

absl::Status Bank::Adopt(absl::Span<const AdoptedTensor> tensors,
                         std::unique_ptr<DeviceAllocation> memory) {
  return core_->loader.Adopt(*core_->registry, tensors, std::move(memory));
}

absl::StatusOr<Lease> Bank::Get(Uid uid) {
  NPUBANK_ASSIGN_OR_RETURN(AdmittedLoad load, core_->loader.Admit({uid}, "", {}));
  NPUBANK_RETURN_IF_ERROR(core_->loader.MakeResident(uid, load.leases.front(), load, {}));
  return std::move(load.leases.front());
}

absl::Status Bank::Read(Uid uid, uint64_t offset, absl::Span<std::byte> out) {
  NPUBANK_ASSIGN_OR_RETURN(const Lease lease, Get(uid));
  const uint64_t bytes = lease.type().bytes();
  if (offset > bytes || out.size() > bytes - offset) {
    return absl::OutOfRangeError(absl::StrCat("reading [", offset, ", +", out.size(), ") of uid ",
                                              uid.ToHex(), ", which has ", bytes, " bytes"));
  }
  if (out.empty()) return absl::OkStatus();
  return core_->device->Read(*core_->books->MemoryOf(lease), offset, out);
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
  absl::StatusOr<SleepReport> report = core_->sleepers.PutToSleep(ids, std::move(copies));
  core_->device->Trim();
  return report;
}

absl::StatusOr<uint64_t> Bank::DropHostCopies(absl::Span<const Owner* const> owners) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids,
                           core_->IdsOf(owners, "dropping host copies"));
  return core_->sleepers.DropCopies(ids);
}

absl::Status Bank::SetBudget(uint64_t bytes) {
  absl::Status status = core_->loader.SetBudget(bytes);
  core_->device->Trim();
  return status;
}

bool Bank::Evict(uint64_t bytes) {
  const bool evicted = core_->departures.EvictFor(bytes);
  core_->device->Trim();
  return evicted;
}

uint64_t Bank::Trim(std::chrono::steady_clock::duration idle_for) {
  const uint64_t bytes = core_->departures.Trim(idle_for);
  core_->device->Trim();
  return bytes;
}

BankTotals Bank::Totals() const {
  BankTotals totals = TotalsOf(*core_->books);
  const Admission::Usage budget = core_->loader.budget();
  totals.budget = budget.limit;
  totals.budget_used = budget.used;
  totals.waits_for_room = budget.waits;
  totals.waits += budget.waits;
  return totals;
}

absl::StatusOr<TensorSnapshot> Bank::Inspect(Uid uid) const {
  return SnapshotOf(*core_->books, uid);
}

BankSnapshot Bank::Snapshot() const { return SnapshotOf(*core_->books, *core_->device); }

AuditReport Bank::Audit(uint64_t other_device_bytes,
                        absl::Span<const Bank* const> neighbours) const {
  const auto audited = [](const Bank& bank) {
    return AuditedBank{.books = bank.core_->books.get(),
                       .device = &bank.core_->device->unchecked(),
                       .driver_bytes_before = bank.core_->driver_bytes_before};
  };
  std::vector<AuditedBank> beside;
  for (const Bank* bank : neighbours) beside.push_back(audited(*bank));
  return AuditBooks(audited(*this), other_device_bytes, beside);
}

}  // namespace npubank

#include "npubank/bank/bank.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/c/handles.h"

using namespace npubank;
using namespace npubank::c;

namespace {

constexpr uint64_t kNoLimit = ~uint64_t{0};

absl::StatusOr<std::vector<const Owner*>> OwnersOf(const npubank_owner* const* owners,
                                                   size_t count) {
  if (count > 0) NPUBANK_RETURN_IF_ERROR(Needs({{owners, "owners"}}));
  std::vector<const Owner*> found;
  for (size_t i = 0; i < count; ++i) {
    NPUBANK_RETURN_IF_ERROR(Needs({{owners[i], "owners[i]"}}));
    found.push_back(&owners[i]->owner);
  }
  return found;
}

absl::StatusOr<LoadOptions> LoadOptionsOf(const npubank_load_options* options) {
  NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(options, "npubank_load_options"));
  LoadOptions made;
  if (given.progress != nullptr) {
    made.progress = [given](const LoadProgress& progress) {
      given.progress(given.user, progress.bytes_done, progress.bytes_total,
                     std::string(progress.tensor).c_str());
    };
  }
  if (given.cancelled != nullptr) {
    made.cancelled = [given] { return given.cancelled(given.user) != 0; };
  }
  return made;
}

absl::Status SetWorkers(const npubank_bank_options& given, BankOptions& options) {
  if (given.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a bank with ", given.threads, " threads"));
  }
  if (given.executor == nullptr) {
    if (given.threads > 0) options.workers = std::make_shared<ThreadWorkers>(given.threads);
    return absl::OkStatus();
  }
  NPUBANK_ASSIGN_OR_RETURN(const auto executor, Read(given.executor, "npubank_executor"));
  NPUBANK_RETURN_IF_ERROR(Needs({{reinterpret_cast<const void*>(executor.run), "run"}}));
  options.workers = WrapExecutor(executor);
  return absl::OkStatus();
}

}  // namespace

npubank_error* npubank_bank_create(npubank_memory* memory, const npubank_bank_options* options,
                                   npubank_bank** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{memory, "memory"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(options, "npubank_bank_options"));
    BankOptions made;
    made.budget_bytes = given.budget_bytes == 0 ? kNoLimit : given.budget_bytes;
    made.keep_unowned = given.keep_unowned != 0;
    made.share_content = given.keep_equal_content_apart == 0;
    if (given.cache_path != nullptr) {
      made.cache =
          CacheFile::Open({.path = given.cache_path, .limit_bytes = given.cache_limit_bytes});
    }
    NPUBANK_RETURN_IF_ERROR(SetWorkers(given, made));
    auto handle = std::make_unique<npubank_bank>();
    handle->cache = made.cache;
    handle->bank = Bank::Create(memory->memory, std::move(made));
    *out = handle.release();
    return absl::OkStatus();
  });
}

void npubank_bank_free(npubank_bank* bank) { delete bank; }

npubank_error* npubank_owner_add(npubank_bank* bank, const char* name, const npubank_index* index,
                                 npubank_owner** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}, {name, "name"}, {out, "out"}}));
    OwnerOptions options;
    if (index != nullptr) options.index = index->index;
    *out = new npubank_owner{bank->bank->AddOwner(name, std::move(options))};
    return absl::OkStatus();
  });
}

void npubank_owner_free(npubank_owner* owner) { delete owner; }

npubank_error* npubank_bank_register(npubank_bank* bank, const npubank_owner* owner,
                                     const npubank_tensor* tensor, const char* name, uint64_t* uid,
                                     int* hit) {
  return npubank_bank_register_with(bank, owner, tensor, name, nullptr, uid, hit);
}

npubank_error* npubank_bank_register_with(npubank_bank* bank, const npubank_owner* owner,
                                          const npubank_tensor* tensor, const char* name,
                                          const npubank_memory_hints* hints, uint64_t* uid,
                                          int* hit) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(
        Needs({{bank, "bank"}, {owner, "owner"}, {tensor, "tensor"}, {name, "name"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(hints, "npubank_memory_hints"));
    NPUBANK_ASSIGN_OR_RETURN(
        const Registration registered,
        bank->bank->Register(owner->owner, tensor->tensor, name,
                             {.alignment = given.alignment, .pool = given.pool}));
    if (uid != nullptr) *uid = registered.uid.value;
    if (hit != nullptr) *hit = registered.hit ? 1 : 0;
    return absl::OkStatus();
  });
}

npubank_error* npubank_bank_load(npubank_bank* bank, const npubank_owner* const* owners,
                                 size_t count, const npubank_load_options* options,
                                 npubank_leases** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto loaded, OwnersOf(owners, count));
    NPUBANK_ASSIGN_OR_RETURN(const LoadOptions load, LoadOptionsOf(options));
    NPUBANK_ASSIGN_OR_RETURN(std::vector<Lease> leases, bank->bank->Load(loaded, load));
    *out = new npubank_leases{std::move(leases)};
    return absl::OkStatus();
  });
}

npubank_error* npubank_bank_load_one(npubank_bank* bank, const char* name,
                                     const npubank_tensor* tensor,
                                     const npubank_load_options* options, npubank_lease** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(
        Needs({{bank, "bank"}, {name, "name"}, {tensor, "tensor"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const LoadOptions load, LoadOptionsOf(options));
    NPUBANK_ASSIGN_OR_RETURN(Lease lease, bank->bank->Load(name, tensor->tensor, load));
    *out = new npubank_lease{std::move(lease)};
    return absl::OkStatus();
  });
}

npubank_error* npubank_bank_wake(npubank_bank* bank, const npubank_owner* const* owners,
                                 size_t count, const npubank_load_options* options) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto woken, OwnersOf(owners, count));
    NPUBANK_ASSIGN_OR_RETURN(const LoadOptions load, LoadOptionsOf(options));
    return bank->bank->EvaluateAndAllocate(woken, load);
  });
}

npubank_error* npubank_bank_get(npubank_bank* bank, uint64_t uid, npubank_lease** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(Lease lease, bank->bank->Get(Uid{uid}));
    *out = new npubank_lease{std::move(lease)};
    return absl::OkStatus();
  });
}

npubank_error* npubank_bank_read(npubank_bank* bank, uint64_t uid, uint64_t offset, void* out,
                                 size_t size) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    if (size > 0) NPUBANK_RETURN_IF_ERROR(Needs({{out, "out"}}));
    return bank->bank->Read(Uid{uid}, offset, {static_cast<std::byte*>(out), size});
  });
}

npubank_error* npubank_bank_inspect(const npubank_bank* bank, uint64_t uid,
                                    npubank_tensor_state* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const TensorSnapshot tensor, bank->bank->Inspect(Uid{uid}));
    npubank_tensor_state told = {};
    told.bytes = tensor.bytes;
    told.device_bytes = tensor.device_bytes;
    told.leases = tensor.leases;
    told.owners = tensor.owners.size();
    tensor.state.copy(told.state, sizeof(told.state) - 1);
    told.alignment = tensor.alignment;
    told.pool = tensor.pool;
    return Write(told, out, "npubank_tensor_state");
  });
}

npubank_error* npubank_bank_sleep(npubank_bank* bank, const npubank_owner* const* owners,
                                  size_t count, const npubank_sleep_options* options,
                                  npubank_sleep_report* report) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto sleepers, OwnersOf(owners, count));
    NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(options, "npubank_sleep_options"));
    if (report != nullptr) {  // before anybody sleeps
      NPUBANK_RETURN_IF_ERROR(Read(report, "npubank_sleep_report").status());
    }
    NPUBANK_ASSIGN_OR_RETURN(
        const SleepReport slept,
        bank->bank->Sleep(sleepers, {.keep_host_copy = given.keep_host_copy != 0}));
    if (report == nullptr) return absl::OkStatus();
    npubank_sleep_report told = {};
    told.bytes_given_back = slept.bytes_given_back;
    told.bytes_of_others_awake = slept.bytes_of_others_awake;
    told.bytes_leased = slept.bytes_leased;
    told.bytes_without_way_back = slept.bytes_without_way_back;
    return Write(told, report, "npubank_sleep_report");
  });
}

npubank_error* npubank_bank_drop_host_copies(npubank_bank* bank, const npubank_owner* const* owners,
                                             size_t count, uint64_t* bytes) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto sleepers, OwnersOf(owners, count));
    NPUBANK_ASSIGN_OR_RETURN(const uint64_t dropped, bank->bank->DropHostCopies(sleepers));
    if (bytes != nullptr) *bytes = dropped;
    return absl::OkStatus();
  });
}

int npubank_bank_evict(npubank_bank* bank, uint64_t bytes) {
  int evicted = 0;
  npubank_error_free(Guarded([&]() -> absl::Status {
    if (bank != nullptr) evicted = bank->bank->Evict(bytes) ? 1 : 0;
    return absl::OkStatus();
  }));
  return evicted;
}

uint64_t npubank_bank_trim(npubank_bank* bank) {
  uint64_t bytes = 0;
  npubank_error_free(Guarded([&]() -> absl::Status {
    if (bank != nullptr) bytes = bank->bank->Trim();
    return absl::OkStatus();
  }));
  return bytes;
}

npubank_error* npubank_bank_set_budget(npubank_bank* bank, uint64_t bytes) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    return bank->bank->SetBudget(bytes == 0 ? kNoLimit : bytes);
  });
}

npubank_error* npubank_bank_totals(const npubank_bank* bank, npubank_totals* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}, {out, "out"}}));
    const BankTotals totals = bank->bank->Totals();
    npubank_totals told = {};
    told.unique_tensors = totals.unique_tensors;
    told.unique_bytes = totals.unique_bytes;
    told.resident_bytes = totals.resident_bytes;
    told.device_bytes = totals.device_bytes;
    told.registrations = totals.registrations;
    told.hits = totals.hits;
    told.shared_bytes_saved = totals.shared_bytes_saved;
    told.evaluations = totals.evaluations;
    told.waits = totals.waits;
    told.evictions = totals.evictions;
    told.transformations = totals.transformations;
    told.cache_hits = totals.cache_hits;
    told.budget = totals.budget == kNoLimit ? 0 : totals.budget;
    told.budget_used = totals.budget_used;
    return Write(told, out, "npubank_totals");
  });
}

npubank_error* npubank_bank_save_snapshot(const npubank_bank* bank, const char* path) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}, {path, "path"}}));
    return WriteSnapshot(bank->bank->Snapshot(), path);
  });
}

npubank_error* npubank_bank_audit(const npubank_bank* bank, uint64_t other_device_bytes) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    const AuditReport report = bank->bank->Audit(other_device_bytes);
    if (report.clean()) return absl::OkStatus();
    return absl::InternalError(absl::StrJoin(report.discrepancies, "\n"));
  });
}

npubank_error* npubank_bank_save_cache(npubank_bank* bank) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{bank, "bank"}}));
    return bank->cache == nullptr ? absl::OkStatus() : bank->cache->Save();
  });
}

size_t npubank_leases_count(const npubank_leases* leases) {
  return leases == nullptr ? 0 : leases->leases.size();
}

npubank_error* npubank_leases_get(const npubank_leases* leases, size_t number,
                                  npubank_lease** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{leases, "leases"}, {out, "out"}}));
    if (number >= leases->leases.size()) {
      return absl::OutOfRangeError(absl::StrCat("lease ", number, " of ", leases->leases.size()));
    }
    *out = new npubank_lease{leases->leases[number]};
    return absl::OkStatus();
  });
}

void npubank_leases_free(npubank_leases* leases) { delete leases; }

npubank_error* npubank_lease_get_facts(const npubank_lease* lease, npubank_lease_facts* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{lease, "lease"}, {out, "out"}}));
    const Lease& of = lease->lease;
    npubank_lease_facts told = {};
    told.address = of.address();
    told.uid = of.uid().value;
    told.type = TypeOf(of.type());
    told.device_bytes = of.device_bytes();
    // Strategies are literals, but nothing says that they end with a zero: those of the library do.
    told.strategy = of.strategy().empty() ? "" : of.strategy().data();
    told.host_bytes = of.host_bytes().empty() ? nullptr : of.host_bytes().data();
    told.file_descriptor = -1;
    if (const FileRange* file = of.file()) {
      told.file_descriptor = file->descriptor;
      told.file_path = file->path.empty() ? nullptr : file->path.c_str();
      told.file_offset = file->offset;
      told.file_page_aligned = file->page_aligned ? 1 : 0;
    }
    return Write(told, out, "npubank_lease_facts");
  });
}

void npubank_lease_free(npubank_lease* lease) { delete lease; }

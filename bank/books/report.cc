#include "npubank/bank/books/report.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {
namespace {

std::string WhyHeld(const Entry& entry) {
  if (entry.recipe == nullptr) return "";
  switch (entry.state) {
    case Residency::kRegistered:
      return "registered, not evaluated yet";
    case Residency::kEvaluating:
      return "being evaluated";
    case Residency::kFailed:
      return absl::StrCat("its evaluation failed: ", entry.failure.ToString());
    case Residency::kEvicted:
      return "evicted, and to come back from what was registered since";
    default:
      return absl::StrCat("still there although ", ResidencyName(entry.state));
  }
}

}  // namespace

absl::string_view OriginName(Origin origin) {
  switch (origin) {
    case Origin::kStored:
      return "stored";
    case Origin::kMisaligned:
      return "misaligned";
    case Origin::kTransformed:
      return "transformed";
    case Origin::kCache:
      return "cache";
    case Origin::kService:
      return "service";
    case Origin::kAdopted:
      return "adopted";
  }
  return "unknown";
}

namespace {

TensorSnapshot Describe(const Entry& entry) {
  TensorSnapshot tensor;
  tensor.uid = entry.uid;
  tensor.digest = entry.digest;
  tensor.name = entry.name;
  tensor.type = entry.type.ToString();
  tensor.state = std::string(ResidencyName(entry.state));
  tensor.recipe = entry.description;
  tensor.bytes = entry.type.bytes();
  if (entry.memory != nullptr) {
    tensor.strategy = std::string(entry.memory->strategy());
    tensor.device_bytes = entry.memory->reserved_bytes();
    tensor.device_address = reinterpret_cast<uintptr_t>(entry.memory->address());
    tensor.origin = std::string(OriginName(entry.origin));
    tensor.stored_bytes = entry.stored_bytes;
  }
  tensor.leases = entry.leases;
  tensor.hits = entry.hits;
  tensor.evaluation_seconds = entry.evaluation_seconds;
  for (const Ownership& of : entry.owners) tensor.owners.push_back(of.owner->name);
  tensor.why_held = WhyHeld(entry);
  const MemoryHints hints = entry.Hints();
  tensor.alignment = hints.alignment;
  tensor.pool = hints.pool;
  return tensor;
}

BankTotals TotalsOf(const Books::View& view) {
  BankTotals totals;
  std::unordered_set<const DeviceAllocation*> counted;
  for (const Entry* entry : view.entries) {
    const uint64_t bytes = entry->type.bytes();
    ++totals.unique_tensors;
    totals.unique_bytes += bytes;
    if (entry->owners.size() > 1) totals.shared_bytes_saved += bytes * (entry->owners.size() - 1);
    if (entry->state == Residency::kResident) totals.resident_bytes += bytes;
    if (entry->memory == nullptr) continue;
    const bool first = counted.insert(entry->memory.get()).second;
    (first ? totals.device_bytes : totals.content_bytes_saved) += entry->memory->reserved_bytes();
  }
  const Books::Counters& counters = view.counters;
  totals.registrations = counters.registrations;
  totals.hits = counters.hits;
  totals.evaluations = counters.evaluations;
  totals.waits = counters.waits;
  totals.evictions = counters.evictions;
  totals.transformations = counters.transformations;
  totals.cache_hits = counters.cache_hits;
  totals.service_hits = counters.service_hits;
  totals.service_bytes = counters.service_bytes;
  totals.misaligned = counters.misaligned;
  totals.misaligned_bytes = counters.misaligned_bytes;
  return totals;
}

}  // namespace

BankTotals TotalsOf(const Books& books) {
  BankTotals totals;
  books.Look([&](const Books::View& view) { totals = TotalsOf(view); });
  return totals;
}

BankSnapshot SnapshotOf(const Books& books, const DeviceMemory& device) {
  BankSnapshot snapshot;
  BankTotals totals;
  std::vector<RecipePtr> recipes;  // of the tensors, walked after the lock
  books.Look([&](const Books::View& view) {
    totals = TotalsOf(view);
    for (const OwnerRecord* owner : view.owners) snapshot.owners.push_back(owner->name);
    for (const Entry* entry : view.entries) {
      snapshot.tensors.push_back(Describe(*entry));
      recipes.push_back(entry->recipe);
    }
  });
  for (size_t i = 0; i < recipes.size(); ++i) {
    if (recipes[i] != nullptr) snapshot.tensors[i].source_bytes = recipes[i]->SourceBytes();
  }
  snapshot.keeps_unowned = books.keep_unowned;
  snapshot.unique_bytes = totals.unique_bytes;
  snapshot.device_bytes = totals.device_bytes;
  snapshot.device_peak_bytes = device.Usage().peak_bytes;
  snapshot.live_source_bytes = LiveSourceBytes();
  snapshot.shared_bytes_saved = totals.shared_bytes_saved;
  snapshot.registrations = totals.registrations;
  snapshot.hits = totals.hits;
  return snapshot;
}

absl::StatusOr<TensorSnapshot> SnapshotOf(const Books& books, Uid uid) {
  TensorSnapshot tensor;
  RecipePtr recipe;  // walked after the lock
  {
    MutexLock lock(books.mutex);
    const Entry* entry = books.FindEntry(uid);
    if (entry == nullptr) {
      return absl::NotFoundError(absl::StrCat("no tensor with uid ", uid.ToHex(),
                                              " is registered: register it, then ask again"));
    }
    tensor = Describe(*entry);
    recipe = entry->recipe;
  }
  if (recipe != nullptr) tensor.source_bytes = recipe->SourceBytes();
  return tensor;
}

}  // namespace npubank

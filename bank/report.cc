#include "bank/report.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lazy_tensor/retention.h"

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

TensorSnapshot Describe(const Entry& entry) {
  TensorSnapshot tensor;
  tensor.uid = entry.uid;
  tensor.digest = entry.digest;
  tensor.name = entry.name;
  tensor.type = entry.type.ToString();
  tensor.state = std::string(ResidencyName(entry.state));
  tensor.recipe = entry.words;
  tensor.bytes = entry.type.bytes();
  if (entry.memory != nullptr) {
    tensor.strategy = std::string(entry.memory->strategy());
    tensor.device_bytes = entry.memory->reserved_bytes();
    tensor.device_address = reinterpret_cast<uintptr_t>(entry.memory->address());
  }
  tensor.source_bytes = entry.recipe == nullptr ? 0 : entry.recipe->SourceBytes();
  tensor.leases = entry.leases;
  tensor.hits = entry.hits;
  tensor.evaluation_seconds = entry.evaluation_seconds;
  for (const OwnerRecord* owner : entry.owners) tensor.owners.push_back(owner->name);
  tensor.why_held = WhyHeld(entry);
  return tensor;
}

}  // namespace

BankTotals TotalsOf(const Registry& registry) {
  BankTotals totals;
  std::unordered_set<const DeviceAllocation*> counted;
  registry.ForEach([&](const Entry& entry) {
    const uint64_t bytes = entry.type.bytes();
    ++totals.unique_tensors;
    totals.unique_bytes += bytes;
    if (entry.owners.size() > 1) totals.shared_bytes_saved += bytes * (entry.owners.size() - 1);
    if (entry.state == Residency::kResident) totals.resident_bytes += bytes;
    if (entry.memory == nullptr) return;
    const bool first = counted.insert(entry.memory.get()).second;
    (first ? totals.device_bytes : totals.content_bytes_saved) += entry.memory->reserved_bytes();
  });
  const Registry::Counters counters = registry.counters();
  totals.registrations = counters.registrations;
  totals.hits = counters.hits;
  totals.evaluations = counters.evaluations;
  totals.waits = counters.waits;
  totals.evictions = counters.evictions;
  totals.transformations = counters.transformations;
  totals.cache_hits = counters.cache_hits;
  return totals;
}

BankSnapshot SnapshotOf(const Registry& registry, const DeviceMemory& device) {
  BankSnapshot snapshot;
  registry.ForEach([&](const Entry& entry) { snapshot.tensors.push_back(Describe(entry)); });
  snapshot.owners = registry.OwnerNames();
  const BankTotals totals = TotalsOf(registry);
  snapshot.unique_bytes = totals.unique_bytes;
  snapshot.device_bytes = totals.device_bytes;
  snapshot.device_peak_bytes = device.Usage().peak_bytes;
  snapshot.live_source_bytes = LiveSourceBytes();
  snapshot.shared_bytes_saved = totals.shared_bytes_saved;
  snapshot.registrations = totals.registrations;
  snapshot.hits = totals.hits;
  return snapshot;
}

}  // namespace npubank

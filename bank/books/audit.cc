#include "npubank/bank/books/audit.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {
namespace {

// What the recipes the bank keeps hold, each Constant once however many recipes reach it.
class SourceBooks {
 public:
  void Add(const Recipe& root) {
    std::vector<const Recipe*> open = {&root};
    while (!open.empty()) {
      const Recipe* recipe = open.back();
      open.pop_back();
      if (!seen_.insert(recipe).second) continue;
      if (const auto* constant = std::get_if<ConstantOp>(&recipe->op())) {
        const uint64_t bytes = recipe->type().bytes();
        total_ += bytes;
        by_source_[constant->hold->source().name()] += bytes;
      }
      for (const RecipePtr& input : recipe->inputs()) open.push_back(input.get());
    }
  }
  uint64_t total() const { return total_; }
  uint64_t Of(const std::string& source) const {
    const auto found = by_source_.find(source);
    return found == by_source_.end() ? 0 : found->second;
  }

 private:
  std::unordered_set<const Recipe*> seen_;
  std::map<std::string, uint64_t> by_source_;
  uint64_t total_ = 0;
};

// What must hold for one tensor on its own; an empty text when it does.
std::string EntryFault(const Entry& entry, bool keeps_unowned) {
  const bool resident = entry.state == Residency::kResident;
  if (resident && entry.recipe != nullptr) return "is resident and still keeps its recipe";
  if (resident && entry.memory == nullptr && entry.type.bytes() > 0) {
    return "is resident without device memory";
  }
  if (!resident && entry.memory != nullptr) {
    return absl::StrCat("is ", ResidencyName(entry.state), " and still has device memory");
  }
  if (entry.owners.empty() && entry.leases == 0 && entry.state != Residency::kEvaluating &&
      !(resident && keeps_unowned)) {
    return "is kept although nobody owns or leases it";
  }
  return "";
}

struct DeviceBytes {
  uint64_t reserved = 0;
  uint64_t imported = 0;
  uint64_t upstream = 0;
};

// What tensors have on the device, each allocation once.
DeviceBytes Booked(const Books::View& view) {
  DeviceBytes bytes;
  std::unordered_set<const DeviceAllocation*> counted;
  for (const Entry* entry : view.entries) {
    const DeviceAllocation* memory = entry->memory.get();
    if (memory == nullptr || !counted.insert(memory).second) continue;
    bytes.reserved += memory->reserved_bytes();
    if (memory->strategy() == "imported") bytes.imported += memory->bytes();
    if (entry->origin == Origin::kService) bytes.upstream += memory->bytes();
  }
  return bytes;
}

void AuditTensors(const AuditedBank& bank, AuditReport& report) {
  bank.books->Look([&](const Books::View& view) {
    const DeviceBytes booked = Booked(view);
    report.device_bytes_booked = booked.reserved;
    report.imported_bytes_booked = booked.imported;
    report.imported_bytes_upstream = booked.upstream;
    for (const Entry* entry : view.entries) {
      const std::string fault = EntryFault(*entry, bank.books->keep_unowned);
      if (fault.empty()) continue;
      report.discrepancies.push_back(
          absl::StrCat("tensor '", entry->name, "' (uid ", entry->uid.ToHex(), ") ", fault));
    }
  });
}

void AuditDevice(const AuditedBank& bank, absl::Span<const AuditedBank> neighbours,
                 AuditReport& report) {
  for (const AuditedBank& neighbour : neighbours) {
    if (neighbour.device != bank.device) continue;
    neighbour.books->Look([&](const Books::View& view) {
      const DeviceBytes booked = Booked(view);
      report.device_bytes_other += booked.reserved;
      report.imported_bytes_other += booked.imported;
    });
  }
  const DeviceUsage usage = bank.device->Usage();
  report.device_bytes_counted = usage.live_bytes;
  report.imported_bytes_counted = usage.imported_bytes;
  if (report.device_bytes_counted != report.device_bytes_booked + report.device_bytes_other) {
    report.discrepancies.push_back(absl::StrCat(
        "the device memory counts ", report.device_bytes_counted, " bytes; tensors have ",
        report.device_bytes_booked, " and others ", report.device_bytes_other));
  }
  if (report.imported_bytes_counted != report.imported_bytes_booked + report.imported_bytes_other) {
    report.discrepancies.push_back(
        absl::StrCat("the device memory counts ", report.imported_bytes_counted,
                     " bytes of imported files; tensors have ", report.imported_bytes_booked,
                     " and others ", report.imported_bytes_other));
  }
}

// A driver that counts less than was asked of it has lost something, or never had it.
void AuditDriver(const AuditedBank& bank, AuditReport& report) {
  const DeviceUsage usage = bank.device->Usage();
  const absl::StatusOr<uint64_t> driver = bank.device->DriverBytes();
  if (!driver.ok()) return;
  report.driver_counts = true;
  report.driver_bytes_counted = *driver;
  report.driver_bytes_before = bank.driver_bytes_before;
  report.driver_bytes_asked = usage.asked_bytes;
  report.driver_bytes_imported = usage.pinned_bytes;
  const uint64_t known = usage.asked_bytes + usage.pinned_bytes;
  report.driver_bytes_apart =
      static_cast<int64_t>(*driver) - static_cast<int64_t>(known + report.driver_bytes_before);
  if (*driver >= known) return;
  report.discrepancies.push_back(
      absl::StrCat("the driver counts ", *driver, " bytes, fewer than the ", usage.asked_bytes,
                   " that were asked of it and ", usage.pinned_bytes, " of imported files"));
}

void AuditSources(const AuditedBank& bank, absl::Span<const AuditedBank> neighbours,
                  AuditReport& report) {
  std::vector<RecipePtr> recipes;  // walked after the lock
  const auto add = [&](const Books::View& view) {
    for (const Entry* entry : view.entries) {
      if (entry->recipe != nullptr) recipes.push_back(entry->recipe);
    }
  };
  bank.books->Look(add);
  for (const AuditedBank& neighbour : neighbours) neighbour.books->Look(add);
  SourceBooks sources;
  for (const RecipePtr& recipe : recipes) sources.Add(*recipe);
  report.source_bytes_booked = sources.total();
  report.source_bytes_counted = LiveSourceBytes();
  // A file that was opened several times is several sources of one name.
  std::map<std::string, HeldSource> held_by_name;
  for (const HeldSource& held : HeldSources()) {
    HeldSource& sum = held_by_name[held.name];
    sum.bytes += held.bytes;
    sum.holders += held.holders;
  }
  for (const auto& [name, held] : held_by_name) {
    const uint64_t booked = sources.Of(name);
    if (held.bytes == booked) continue;
    report.discrepancies.push_back(absl::StrCat(
        "source '", name, "': ", held.bytes, " bytes held by ", held.holders, " constants, ",
        booked, " of them for tensors that are still to be evaluated"));
  }
}

std::string DriverInWords(const AuditReport& report) {
  if (!report.driver_counts) return "driver bytes: it cannot be asked\n";
  return absl::StrCat("driver bytes: ", report.driver_bytes_asked, " asked for + ",
                      report.driver_bytes_imported, " imported + ", report.driver_bytes_before,
                      " before any weight + ", report.driver_bytes_apart,
                      " apart, its own buffers and those of others, counted ",
                      report.driver_bytes_counted, "\n");
}

}  // namespace

uint64_t UnaskedDriverBytes(const DeviceMemory& device) {
  const DeviceUsage usage = device.Usage();
  const uint64_t known = usage.asked_bytes + usage.pinned_bytes;
  const uint64_t counted = device.DriverBytes().value_or(0);
  return counted - std::min(counted, known);
}

std::string AuditReport::ToString() const {
  std::string text = absl::StrCat(
      "device bytes: ", device_bytes_booked, " of tensors + ", device_bytes_other,
      " of others, counted ", device_bytes_counted, "\nimported bytes: ", imported_bytes_booked,
      " of tensors (", imported_bytes_upstream, " of them an upstream's) + ", imported_bytes_other,
      " of others, counted ", imported_bytes_counted, "\nsource bytes: ", source_bytes_booked,
      " booked, ", source_bytes_counted, " live\n", DriverInWords(*this),
      clean() ? "the books agree\n" : absl::StrCat(discrepancies.size(), " discrepancies:\n"));
  for (const std::string& line : discrepancies) absl::StrAppend(&text, "  ", line, "\n");
  return text;
}

AuditReport AuditBooks(const AuditedBank& bank, uint64_t other_device_bytes,
                       absl::Span<const AuditedBank> neighbours) {
  AuditReport report;
  report.device_bytes_other = other_device_bytes;
  AuditTensors(bank, report);
  AuditSources(bank, neighbours, report);
  AuditDevice(bank, neighbours, report);
  AuditDriver(bank, report);
  return report;
}

}  // namespace npubank

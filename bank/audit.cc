#include "bank/audit.h"

#include <map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bank/device_memory.h"
#include "bank/registry.h"
#include "lazy_tensor/retention.h"

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

}  // namespace

std::string AuditReport::ToString() const {
  std::string text = absl::StrCat(
      "device bytes: ", device_bytes_booked, " of tensors + ", device_bytes_other,
      " of others, counted ", device_bytes_counted, "\nsource bytes: ", source_bytes_booked,
      " booked, ", source_bytes_counted, " live\n",
      clean() ? "the books agree\n" : absl::StrCat(discrepancies.size(), " discrepancies:\n"));
  for (const std::string& line : discrepancies) absl::StrAppend(&text, "  ", line, "\n");
  return text;
}

AuditReport AuditBooks(const Registry& registry, const DeviceMemory& device,
                       uint64_t other_device_bytes) {
  AuditReport report;
  report.device_bytes_other = other_device_bytes;
  SourceBooks sources;
  std::vector<RecipePtr> recipes;  // walked after the lock
  std::unordered_set<const DeviceAllocation*> counted;
  registry.ForEach([&](const Entry& entry) {
    if (entry.memory != nullptr && counted.insert(entry.memory.get()).second) {
      report.device_bytes_booked += entry.memory->reserved_bytes();
    }
    if (entry.recipe != nullptr) recipes.push_back(entry.recipe);
    const std::string fault = EntryFault(entry, registry.keeps_unowned());
    if (!fault.empty()) {
      report.discrepancies.push_back(
          absl::StrCat("tensor '", entry.name, "' (uid ", entry.uid.ToHex(), ") ", fault));
    }
  });
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
        booked, " of them for tensors the bank still has to evaluate"));
  }
  report.device_bytes_counted = device.Usage().live_bytes;
  if (report.device_bytes_counted != report.device_bytes_booked + other_device_bytes) {
    report.discrepancies.push_back(absl::StrCat(
        "the device memory counts ", report.device_bytes_counted, " bytes; tensors have ",
        report.device_bytes_booked, " and others ", other_device_bytes));
  }
  const absl::StatusOr<uint64_t> driver = device.DriverBytes();
  if (driver.ok() && *driver < report.device_bytes_counted) {
    report.discrepancies.push_back(
        absl::StrCat("the driver holds ", *driver, " bytes, fewer than the ",
                     report.device_bytes_counted, " that the device memory counts"));
  }
  return report;
}

}  // namespace npubank

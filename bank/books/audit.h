// AuditReport: what Bank::Audit found: the bank's books against the device's own count and against
// what recipes still hold.
//
//   AuditReport report = bank->Audit();
//   if (!report.clean()) LOG(ERROR) << report.ToString();
//
// Run it while nothing is being loaded: an evaluation under way shows up as a difference.
#ifndef NPUBANK_BANK_BOOKS_AUDIT_H_
#define NPUBANK_BANK_BOOKS_AUDIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace npubank {

class DeviceMemory;
class Registry;

struct AuditReport {
  // Of tensors: what resident ones cost, rounded as the strategy says. Of others: neighbours on the
  // same DeviceMemory, and what the caller says. Counted: the DeviceMemory's usage.
  uint64_t device_bytes_booked = 0;
  uint64_t device_bytes_other = 0;
  uint64_t device_bytes_counted = 0;
  // The same of files that are device memory as they are.
  uint64_t imported_bytes_booked = 0;
  uint64_t imported_bytes_other = 0;
  uint64_t imported_bytes_counted = 0;
  // Held by the recipes of tensors that are still to be evaluated, here or by neighbours; of the
  // whole process.
  uint64_t source_bytes_booked = 0;
  uint64_t source_bytes_counted = 0;
  std::vector<std::string> discrepancies;  // a line each, naming the tensor

  bool clean() const { return discrepancies.empty(); }
  std::string ToString() const;
};

struct AuditedBank {
  const Registry* registry;
  const DeviceMemory* device;
};

// What Bank::Audit runs.
AuditReport AuditBooks(const AuditedBank& bank, uint64_t other_device_bytes,
                       absl::Span<const AuditedBank> neighbours);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_AUDIT_H_

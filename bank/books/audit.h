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
struct Books;

struct AuditReport {
  // Of tensors: what resident ones cost, rounded as the strategy says. Of others: neighbours on the
  // same DeviceMemory, and what the caller says. Counted: the DeviceMemory's usage.
  uint64_t device_bytes_booked = 0;
  uint64_t device_bytes_other = 0;
  uint64_t device_bytes_counted = 0;
  // The same of files that are device memory as they are.
  uint64_t imported_bytes_booked = 0;
  uint64_t imported_bytes_upstream = 0;  // of those booked: another bank's memory (upstream.h)
  uint64_t imported_bytes_other = 0;
  uint64_t imported_bytes_counted = 0;
  // The driver's own count, which also has what the driver needs for itself: `before` any weight, as
  // the bank was made; `asked` of it through this DeviceMemory, for tensors, what others have and
  // what is kept for reuse, without rounding; whole pages of `imported` files; and what is `apart`
  // from all that: command buffers, event pools, buffers of others, less what they gave back, which
  // may be more than they hold now: a difference, so it has a sign.
  bool driver_counts = false;  // whether it can be asked
  uint64_t driver_bytes_counted = 0;
  uint64_t driver_bytes_before = 0;
  uint64_t driver_bytes_asked = 0;
  uint64_t driver_bytes_imported = 0;
  int64_t driver_bytes_apart = 0;
  // Held by the recipes of tensors that are still to be evaluated, here or by neighbours; of the
  // whole process.
  uint64_t source_bytes_booked = 0;
  uint64_t source_bytes_counted = 0;
  std::vector<std::string> discrepancies;  // a line each, naming the tensor

  bool clean() const { return discrepancies.empty(); }
  std::string ToString() const;
};

struct AuditedBank {
  const Books* books;
  const DeviceMemory* device;
  uint64_t driver_bytes_before = 0;  // see UnaskedDriverBytes
};

// What the driver counts beyond what was asked of it through `device`; 0 where it cannot be asked.
uint64_t UnaskedDriverBytes(const DeviceMemory& device);

// What Bank::Audit runs.
AuditReport AuditBooks(const AuditedBank& bank, uint64_t other_device_bytes,
                       absl::Span<const AuditedBank> neighbours);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_AUDIT_H_

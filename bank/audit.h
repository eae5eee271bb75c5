// AuditReport: what Bank::Audit found: the bank's books against the device's own count and against
// what recipes still hold.
//
//   AuditReport report = bank->Audit();
//   if (!report.clean()) LOG(ERROR) << report.ToString();
//
// Run it while nothing is being loaded: an evaluation under way shows up as a difference.
#ifndef NPUBANK_BANK_AUDIT_H_
#define NPUBANK_BANK_AUDIT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace npubank {

class DeviceMemory;
class Registry;

struct AuditReport {
  uint64_t device_bytes_booked = 0;  // sum over resident tensors, rounded as the strategy says
  uint64_t device_bytes_other =
      0;  // what the caller says others hold through the same DeviceMemory
  uint64_t device_bytes_counted = 0;  // the DeviceMemory's usage
  uint64_t source_bytes_booked =
      0;  // held by the recipes of tensors the bank still has to evaluate
  uint64_t source_bytes_counted = 0;       // live source bytes of the process
  std::vector<std::string> discrepancies;  // a line each, naming the tensor

  bool clean() const { return discrepancies.empty(); }
  std::string ToString() const;
};

// What Bank::Audit runs.
AuditReport AuditBooks(const Registry& registry, const DeviceMemory& device,
                       uint64_t other_device_bytes);

}  // namespace npubank

#endif  // NPUBANK_BANK_AUDIT_H_

// Report: the registry's books as totals and as a snapshot.
#ifndef NPUBANK_BANK_REPORT_H_
#define NPUBANK_BANK_REPORT_H_

#include "bank/bank.h"
#include "bank/device_memory.h"
#include "bank/registry.h"
#include "bank/snapshot.h"

namespace npubank {

BankTotals TotalsOf(const Registry& registry);
BankSnapshot SnapshotOf(const Registry& registry, const DeviceMemory& device);

}  // namespace npubank

#endif  // NPUBANK_BANK_REPORT_H_

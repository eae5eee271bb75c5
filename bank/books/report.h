// Report: the registry's books as totals and as a snapshot.
#ifndef NPUBANK_BANK_BOOKS_REPORT_H_
#define NPUBANK_BANK_BOOKS_REPORT_H_

#include "npubank/bank/books/registry.h"
#include "npubank/bank/books/results.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/files/snapshot.h"

namespace npubank {

BankTotals TotalsOf(const Registry& registry);
BankSnapshot SnapshotOf(const Registry& registry, const DeviceMemory& device);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_REPORT_H_

// Report: the books as totals and as a snapshot.
#ifndef NPUBANK_BANK_BOOKS_REPORT_H_
#define NPUBANK_BANK_BOOKS_REPORT_H_

#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/results.h"
#include "npubank/bank/device_memory.h"

namespace npubank {

BankTotals TotalsOf(const Books& books);
BankSnapshot SnapshotOf(const Books& books, const DeviceMemory& device);
// Of one tensor; NotFound where it is not known.
absl::StatusOr<TensorSnapshot> SnapshotOf(const Books& books, Uid uid);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_REPORT_H_

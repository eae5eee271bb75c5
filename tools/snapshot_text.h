// A bank's snapshot for people and for scripts: what bank-inspect prints.
//
//   std::fputs(SnapshotAsTable(snapshot).c_str(), stdout);
//
// Names come from files: what cannot be printed is escaped in the table, and JSON stays valid
// UTF-8.
#ifndef NPUBANK_TOOLS_SNAPSHOT_TEXT_H_
#define NPUBANK_TOOLS_SNAPSHOT_TEXT_H_

#include <string>

#include "bank/snapshot.h"

namespace npubank {

// A line per uid in registration order, then the totals.
std::string SnapshotAsTable(const BankSnapshot& snapshot);

// {"tensors": [{"uid", "digest", "name", "type", "state", "bytes", "device_bytes",
// "device_address",
//   "strategy", "source_bytes", "leases", "hits", "evaluation_seconds", "owners", "recipe",
//   "why_held"}], "owners": [...], "totals": {...}}. Uids, digests and addresses are hex texts.
std::string SnapshotAsJson(const BankSnapshot& snapshot);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_SNAPSHOT_TEXT_H_

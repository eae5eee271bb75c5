// A bank's snapshot for people and for scripts: what bank-inspect prints.
//
//   std::fputs(SnapshotAsTable(snapshot).c_str(), stdout);
//
// Names come from files: what cannot be printed is escaped in the table, and JSON stays valid
// UTF-8.
#ifndef NPUBANK_TOOLS_SNAPSHOT_TEXT_H_
#define NPUBANK_TOOLS_SNAPSHOT_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "bank/snapshot.h"

namespace npubank {

// Leaves out the tensors that have `part` in none of name, uid, state, strategy, owners and recipe.
void KeepTensorsWith(const std::string& part, BankSnapshot& snapshot);

// By name, uid or state, or the largest bytes, device-bytes, leases, hits or seconds first; equal
// ones stay in order. InvalidArgument for any other key, naming those there are.
absl::Status SortTensors(const std::string& key, BankSnapshot& snapshot);

// A line per uid, then the totals.
std::string SnapshotAsTable(const BankSnapshot& snapshot);

// {"tensors": [{"uid", "digest", "name", "type", "state", "bytes", "device_bytes",
// "device_address",
//   "strategy", "source_bytes", "leases", "hits", "evaluation_seconds", "owners", "recipe",
//   "why_held"}], "owners": [...], "totals": {...}}. Uids, digests and addresses are hex texts.
std::string SnapshotAsJson(const BankSnapshot& snapshot);

// A line per uid under a line of titles, with the fields of the JSON; owners are joined by ";".
std::string SnapshotAsCsv(const BankSnapshot& snapshot);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_SNAPSHOT_TEXT_H_

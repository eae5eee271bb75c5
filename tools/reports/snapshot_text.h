// A bank's snapshot for people and for scripts: what bank-inspect prints.
//
//   std::fputs(SnapshotAsTable(snapshot).c_str(), stdout);
//   std::fputs(SnapshotAsTable(snapshot, "layers.0.").c_str(), stdout);
//
// With a filter only the tensors that have it somewhere are printed (HasText); the totals are the
// bank's all the same.
//
// Names come from files: what cannot be printed is escaped in the table, and JSON stays valid
// UTF-8.
#ifndef NPUBANK_TOOLS_REPORTS_SNAPSHOT_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_SNAPSHOT_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "npubank/bank/files/snapshot.h"

namespace npubank {

// Whether `part` is in its name, uid, state, strategy, an owner or its recipe. All have "".
bool HasText(const TensorSnapshot& tensor, const std::string& part);

// By name, uid or state, or the largest bytes, device-bytes, leases, hits or seconds first; equal
// ones stay in order. InvalidArgument for any other key, naming those there are.
absl::Status SortTensors(const std::string& key, BankSnapshot& snapshot);

// A line per uid, then the totals.
std::string SnapshotAsTable(const BankSnapshot& snapshot, const std::string& filter = "");

// {"tensors": [{"uid", "digest", "name", "type", "state", "bytes", "device_bytes",
//               "device_address", "strategy", "source_bytes", "leases", "hits",
//               "evaluation_seconds", "owners", "recipe", "why_held",
//               "origin", "stored_bytes", "alignment", "pool"}],
//  "owners": [...],
//  "totals": {...}}
// Uids, digests and addresses are hex texts.
std::string SnapshotAsJson(const BankSnapshot& snapshot, const std::string& filter = "");

// A line per uid under a line of titles, with the fields of the JSON; owners are joined by ";".
std::string SnapshotAsCsv(const BankSnapshot& snapshot, const std::string& filter = "");

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_SNAPSHOT_TEXT_H_

// SnapshotFindings: what a snapshot shows that should not be there, and what changed between two.
//
//   for (const SnapshotFinding& leak : FindLeaks(after)) ...
//   std::fputs(FindingsAsText(DiffSnapshots(before, after), "table").c_str(), stdout);
//
// Take a snapshot for FindLeaks when every load is done: a tensor that is still to be evaluated
// holds its source rightly until then.
#ifndef NPUBANK_TOOLS_REPORTS_SNAPSHOT_FINDINGS_H_
#define NPUBANK_TOOLS_REPORTS_SNAPSHOT_FINDINGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "npubank/bank/files/snapshot.h"

namespace npubank {

struct SnapshotFinding {
  std::string kind;  // "added", "removed", "changed", "total"; or "source", "device", "lease"
  std::string uid;   // empty for what no tensor accounts for
  std::string name;
  std::string what;  // "state resident -> evicted, leases 1 -> 0"
};

// Tensors by uid, then the totals; what is equal is left out. Addresses and evaluation times are
// not compared: they differ from run to run. With a filter only tensors that have it somewhere,
// before or after (HasText); the totals are those of all.
std::vector<SnapshotFinding> DiffSnapshots(const BankSnapshot& before, const BankSnapshot& after,
                                           const std::string& filter = "");

// Source bytes that are still held, device bytes and leases of tensors that nobody owns, and source
// bytes that no tensor of the bank accounts for. Where the bank keeps what nobody owns, its device
// bytes are no leak.
std::vector<SnapshotFinding> FindLeaks(const BankSnapshot& snapshot);

// `format` is table, json or csv. An empty list is an empty table, [], or a header alone.
std::string FindingsAsText(const std::vector<SnapshotFinding>& findings, absl::string_view format);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_SNAPSHOT_FINDINGS_H_

// What a daemon says of itself, for people and for scripts: what bank-inspect --service prints.
//
//   NPUBANK_ASSIGN_OR_RETURN(const service::State state, client->GetState());
//   NPUBANK_ASSIGN_OR_RETURN(const std::string text, ServiceAsText(state, "table", ""));
//   for (const SnapshotFinding& leak : FindServiceLeaks(state, IsAlive)) ...
//
// Names come from clients: what cannot be printed is escaped in the table, and JSON stays valid UTF-8.
// Errors: those of DecodeSnapshot, when the daemon's bank is not to be read.
#ifndef NPUBANK_TOOLS_REPORTS_SERVICE_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_SERVICE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/tools/reports/snapshot_findings.h"

namespace npubank {

// table: the daemon, a line per client and what it waits for, a line per segment of its memory and who
// leases it, then the bank's tensors as SnapshotAsTable shows them. json: {"daemon": {...}, "clients":
// [...], "segments": [...], "bank": SnapshotAsJson}. csv: the tensors, as SnapshotAsCsv.
absl::StatusOr<std::string> ServiceAsText(const service::State& state, absl::string_view format,
                                          const std::string& filter);

// What no living process explains: a client whose process is gone; owners and leases in the bank that
// no client has; what the daemon's own audit found; and what FindLeaks finds in its bank.
absl::StatusOr<std::vector<SnapshotFinding>> FindServiceLeaks(
    const service::State& state, absl::FunctionRef<bool(uint32_t pid)> is_alive);

// Of this system, another user's too.
bool IsAlive(uint32_t pid);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_SERVICE_TEXT_H_

#include "npubank/tools/reports/service_text.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/reports/snapshot_text.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

using service::ClientState;
using service::SegmentState;
using service::State;

std::string ClientsAsTable(const State& state) {
  TextTable table({{"pid", TextTable::kRight},
                   {"uid", TextTable::kRight},
                   {"program"},
                   {"sources", TextTable::kRight},
                   {"segments", TextTable::kRight},
                   {"bytes", TextTable::kRight},
                   {"owners"},
                   {"waits for"}});
  for (const ClientState& client : state.clients) {
    table.AddRow({absl::StrCat(client.pid), absl::StrCat(client.uid), client.program,
                  absl::StrCat(client.sources), absl::StrCat(client.leased_segments),
                  absl::StrCat(client.leased_bytes), absl::StrJoin(client.owners, ", "),
                  client.loading});
  }
  return table.AsColumns();
}

// Who leases each segment, by its number.
std::map<uint64_t, std::vector<uint32_t>> Holders(const State& state) {
  std::map<uint64_t, std::vector<uint32_t>> holders;
  for (const ClientState& client : state.clients) {
    for (const uint64_t segment : client.segments) holders[segment].push_back(client.pid);
  }
  return holders;
}

std::string SegmentsAsTable(const State& state) {
  std::map<uint64_t, std::vector<uint32_t>> holders = Holders(state);
  TextTable table({{"segment", TextTable::kRight},
                   {"bytes", TextTable::kRight},
                   {"memory", TextTable::kRight},
                   {"tensors", TextTable::kRight},
                   {"kept"},
                   {"leased by"},
                   {"name"}});
  for (const SegmentState& segment : state.segments) {
    table.AddRow({absl::StrCat(segment.number), absl::StrCat(segment.bytes),
                  absl::StrCat(segment.memory_bytes), absl::StrCat(segment.tensors),
                  segment.kept ? "yes" : "no", absl::StrJoin(holders[segment.number], ", "),
                  segment.name});
  }
  return table.AsColumns();
}

std::string DaemonAsText(const State& state) {
  std::string text =
      absl::StrCat("npubankd, pid ", state.pid, ": ", state.clients.size(), " clients, ",
                   state.memory_bytes, " bytes of shared memory; budget ", state.budget, ", used ",
                   state.budget_used, "\nevaluations ", state.evaluations, ", transformations ",
                   state.transformations, ", cache hits ", state.cache_hits, ", waits ",
                   state.waits, ", evictions ", state.evictions, "\n");
  if (state.adopted > 0) {
    absl::StrAppend(&text, state.adopted, " tensors from the daemon before it\n");
  }
  for (const std::string& line : state.kept_problems) {
    absl::StrAppend(&text, "not kept: ", absl::CHexEscape(line), "\n");
  }
  for (const std::string& line : state.audit) absl::StrAppend(&text, "audit: ", line, "\n");
  return text;
}

nlohmann::json ClientAsJson(const ClientState& client) {
  return {{"pid", client.pid},
          {"uid", client.uid},
          {"program", client.program},
          {"sources", client.sources},
          {"owners", client.owners},
          {"leased_segments", client.leased_segments},
          {"leased_bytes", client.leased_bytes},
          {"segments", client.segments},
          {"waits_for", client.loading}};
}

nlohmann::json SegmentAsJson(const SegmentState& segment) {
  return {{"number", segment.number},   {"name", segment.name},
          {"bytes", segment.bytes},     {"memory_bytes", segment.memory_bytes},
          {"tensors", segment.tensors}, {"kept", segment.kept}};
}

std::string AsJson(const State& state, const BankSnapshot& snapshot, const std::string& filter) {
  nlohmann::json clients = nlohmann::json::array();
  for (const ClientState& client : state.clients) clients.push_back(ClientAsJson(client));
  nlohmann::json segments = nlohmann::json::array();
  for (const SegmentState& segment : state.segments) segments.push_back(SegmentAsJson(segment));
  const nlohmann::json whole = {{"daemon",
                                 {{"pid", state.pid},
                                  {"memory_bytes", state.memory_bytes},
                                  {"budget", state.budget},
                                  {"budget_used", state.budget_used},
                                  {"evaluations", state.evaluations},
                                  {"transformations", state.transformations},
                                  {"cache_hits", state.cache_hits},
                                  {"waits", state.waits},
                                  {"evictions", state.evictions},
                                  {"adopted", state.adopted},
                                  {"kept_problems", state.kept_problems},
                                  {"audit", state.audit}}},
                                {"clients", std::move(clients)},
                                {"segments", std::move(segments)},
                                {"bank", nlohmann::json::parse(SnapshotAsJson(snapshot, filter))}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Who has something in the bank, by the names that clients gave.
std::set<std::string> OwnersOf(const State& state) {
  std::set<std::string> owners;
  for (const ClientState& client : state.clients) {
    owners.insert(client.owners.begin(), client.owners.end());
  }
  return owners;
}

}  // namespace

absl::StatusOr<std::string> ServiceAsText(const State& state, absl::string_view format,
                                          const std::string& filter) {
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, DecodeSnapshot(state.snapshot));
  if (format == "json") return AsJson(state, snapshot, filter);
  if (format == "csv") return SnapshotAsCsv(snapshot, filter);
  return absl::StrCat(DaemonAsText(state), "\n", ClientsAsTable(state), "\n",
                      SegmentsAsTable(state), "\n", SnapshotAsTable(snapshot, filter));
}

absl::StatusOr<std::vector<SnapshotFinding>> FindServiceLeaks(
    const State& state, absl::FunctionRef<bool(uint32_t pid)> is_alive) {
  NPUBANK_ASSIGN_OR_RETURN(const BankSnapshot snapshot, DecodeSnapshot(state.snapshot));
  std::vector<SnapshotFinding> leaks;
  for (const ClientState& client : state.clients) {
    if (is_alive(client.pid)) continue;
    leaks.push_back(
        {.kind = "client",
         .uid = "",
         .name = client.program,
         .what = absl::StrCat("pid ", client.pid, " is gone and has ", client.leased_segments,
                              " segments, ", client.leased_bytes, " bytes")});
  }
  const std::set<std::string> owners = OwnersOf(state);
  const bool leased =
      std::any_of(state.clients.begin(), state.clients.end(), [](const ClientState& client) {
        return client.leased_segments > 0 || !client.loading.empty();
      });
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    for (const std::string& owner : tensor.owners) {
      if (owners.count(owner) > 0) continue;
      leaks.push_back({.kind = "owner",
                       .uid = tensor.uid.ToHex(),
                       .name = tensor.name,
                       .what = absl::StrCat("'", owner, "' is no client's")});
    }
    if (tensor.leases == 0 || leased || tensor.owners.empty()) continue;  // FindLeaks has the last
    leaks.push_back({.kind = "lease",
                     .uid = tensor.uid.ToHex(),
                     .name = tensor.name,
                     .what = absl::StrCat(tensor.leases, " leases, and no client has any")});
  }
  for (const std::string& line : state.audit) {
    leaks.push_back({.kind = "audit", .uid = "", .name = "", .what = line});
  }
  for (SnapshotFinding& leak : FindLeaks(snapshot)) leaks.push_back(std::move(leak));
  return leaks;
}

bool IsAlive(uint32_t pid) {
  return pid != 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

}  // namespace npubank

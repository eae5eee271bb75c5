#include "npubank/tools/reports/snapshot_findings.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/tools/reports/snapshot_text.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

// "bytes 8 -> 16", or nothing where they are equal.
template <typename T>
void Compare(absl::string_view field, const T& before, const T& after,
             std::vector<std::string>& changes) {
  if (before != after) changes.push_back(absl::StrCat(field, " ", before, " -> ", after));
}

std::string Changes(const TensorSnapshot& before, const TensorSnapshot& after) {
  std::vector<std::string> changes;
  Compare("state", before.state, after.state, changes);
  Compare("strategy", before.strategy, after.strategy, changes);
  Compare("device bytes", before.device_bytes, after.device_bytes, changes);
  Compare("source bytes", before.source_bytes, after.source_bytes, changes);
  Compare("leases", before.leases, after.leases, changes);
  Compare("hits", before.hits, after.hits, changes);
  Compare("owners", absl::StrJoin(before.owners, ","), absl::StrJoin(after.owners, ","), changes);
  return absl::StrJoin(changes, ", ");
}

std::string Totals(const BankSnapshot& before, const BankSnapshot& after) {
  std::vector<std::string> changes;
  Compare("tensors", before.tensors.size(), after.tensors.size(), changes);
  Compare("owners", before.owners.size(), after.owners.size(), changes);
  Compare("unique bytes", before.unique_bytes, after.unique_bytes, changes);
  Compare("device bytes", before.device_bytes, after.device_bytes, changes);
  Compare("device peak bytes", before.device_peak_bytes, after.device_peak_bytes, changes);
  Compare("live source bytes", before.live_source_bytes, after.live_source_bytes, changes);
  Compare("registrations", before.registrations, after.registrations, changes);
  return absl::StrJoin(changes, ", ");
}

std::map<Uid, const TensorSnapshot*> ByUid(const BankSnapshot& snapshot) {
  std::map<Uid, const TensorSnapshot*> tensors;
  for (const TensorSnapshot& tensor : snapshot.tensors) tensors.emplace(tensor.uid, &tensor);
  return tensors;
}

SnapshotFinding Finding(absl::string_view kind, const TensorSnapshot& tensor, std::string what) {
  return {std::string(kind), tensor.uid.ToHex(), tensor.name, std::move(what)};
}

}  // namespace

std::vector<SnapshotFinding> DiffSnapshots(const BankSnapshot& before, const BankSnapshot& after,
                                           const std::string& filter) {
  std::vector<SnapshotFinding> findings;
  const std::map<Uid, const TensorSnapshot*> old = ByUid(before);
  const std::map<Uid, const TensorSnapshot*> now = ByUid(after);
  for (const auto& [uid, tensor] : old) {
    const auto found = now.find(uid);
    const TensorSnapshot* const later = found == now.end() ? nullptr : found->second;
    if (!HasText(*tensor, filter) && (later == nullptr || !HasText(*later, filter))) continue;
    if (later == nullptr) {
      findings.push_back(Finding("removed", *tensor, absl::StrCat(tensor->bytes, " bytes")));
      continue;
    }
    const std::string changes = Changes(*tensor, *later);
    if (!changes.empty()) findings.push_back(Finding("changed", *tensor, changes));
  }
  for (const auto& [uid, tensor] : now) {
    if (old.count(uid) > 0 || !HasText(*tensor, filter)) continue;
    findings.push_back(
        Finding("added", *tensor, absl::StrCat(tensor->state, ", ", tensor->bytes, " bytes")));
  }
  const std::string totals = Totals(before, after);
  if (!totals.empty()) findings.push_back({"total", "", "", totals});
  return findings;
}

std::vector<SnapshotFinding> FindLeaks(const BankSnapshot& snapshot) {
  std::vector<SnapshotFinding> findings;
  uint64_t accounted = 0;
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    // What a file says may be any number: the sum must not wrap back to a small one.
    accounted = accounted + tensor.source_bytes < accounted ? ~uint64_t{0}
                                                            : accounted + tensor.source_bytes;
    if (tensor.source_bytes > 0) {
      findings.push_back(Finding(
          "source", tensor,
          absl::StrCat(tensor.source_bytes, " source bytes still held: ", tensor.why_held)));
    }
    if (!tensor.owners.empty()) continue;
    if (tensor.leases > 0) {
      findings.push_back(
          Finding("lease", tensor, absl::StrCat(tensor.leases, " leases, and nobody owns it")));
    } else if (tensor.device_bytes > 0 && !snapshot.keeps_unowned) {
      findings.push_back(Finding(
          "device", tensor,
          absl::StrCat(tensor.device_bytes, " device bytes, and nobody owns or leases it")));
    }
  }
  if (snapshot.live_source_bytes > accounted) {
    findings.push_back({"source", "", "",
                        absl::StrCat(snapshot.live_source_bytes - accounted,
                                     " source bytes held by somebody else than the bank")});
  }
  return findings;
}

std::string FindingsAsText(const std::vector<SnapshotFinding>& findings, absl::string_view format) {
  if (format == "json") {
    nlohmann::json all = nlohmann::json::array();
    for (const SnapshotFinding& finding : findings) {
      all.push_back({{"kind", finding.kind},
                     {"uid", finding.uid},
                     {"name", finding.name},
                     {"what", finding.what}});
    }
    return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  TextTable table({{"kind"}, {"uid"}, {"name"}, {"what"}});
  for (const SnapshotFinding& finding : findings) {
    table.AddRow({finding.kind, finding.uid, finding.name, finding.what});
  }
  if (format == "csv") return table.AsCsv();
  return findings.empty() ? "" : table.AsColumns();
}

}  // namespace npubank

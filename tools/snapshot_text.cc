#include "tools/snapshot_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace npubank {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the last is left as it is.
std::string Columns(const std::vector<Row>& rows, const std::vector<bool>& right_aligned) {
  std::vector<size_t> widths(right_aligned.size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&text, right_aligned[i] ? padding : "", row[i],
                      right_aligned[i] ? "" : padding, "  ");
    }
    absl::StrAppend(&text, row.back(), "\n");
  }
  return text;
}

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

nlohmann::json TensorAsJson(const TensorSnapshot& tensor) {
  return {{"uid", tensor.uid.ToHex()},
          {"digest", tensor.digest.ToHex()},
          {"name", tensor.name},
          {"type", tensor.type},
          {"state", tensor.state},
          {"bytes", tensor.bytes},
          {"device_bytes", tensor.device_bytes},
          {"device_address", Hex(tensor.device_address)},
          {"strategy", tensor.strategy},
          {"source_bytes", tensor.source_bytes},
          {"leases", tensor.leases},
          {"hits", tensor.hits},
          {"evaluation_seconds", tensor.evaluation_seconds},
          {"owners", tensor.owners},
          {"recipe", tensor.recipe},
          {"why_held", tensor.why_held}};
}

}  // namespace

std::string SnapshotAsTable(const BankSnapshot& snapshot) {
  std::vector<Row> rows = {{"uid", "state", "bytes", "strategy", "owners", "recipe"}};
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    rows.push_back({tensor.uid.ToHex(), absl::CEscape(tensor.state), absl::StrCat(tensor.bytes),
                    tensor.strategy.empty() ? "-" : absl::CEscape(tensor.strategy),
                    tensor.owners.empty() ? "-" : absl::CEscape(absl::StrJoin(tensor.owners, ",")),
                    absl::CEscape(tensor.recipe)});
  }
  std::string text = Columns(rows, {false, false, true, false, false, false});
  absl::StrAppend(&text, "\n", snapshot.tensors.size(), " tensors of ", snapshot.owners.size(),
                  " owners, ", snapshot.unique_bytes, " bytes\ndevice: ", snapshot.device_bytes,
                  " bytes now, ", snapshot.device_peak_bytes,
                  " at the peak\nsaved by sharing: ", snapshot.shared_bytes_saved, " bytes, ",
                  snapshot.hits, " hits in ", snapshot.registrations,
                  " registrations\nlive source bytes: ", snapshot.live_source_bytes, "\n");
  return text;
}

std::string SnapshotAsJson(const BankSnapshot& snapshot) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorSnapshot& tensor : snapshot.tensors) tensors.push_back(TensorAsJson(tensor));
  const nlohmann::json all = {{"tensors", std::move(tensors)},
                              {"owners", snapshot.owners},
                              {"totals",
                               {{"unique_tensors", snapshot.tensors.size()},
                                {"unique_bytes", snapshot.unique_bytes},
                                {"device_bytes", snapshot.device_bytes},
                                {"device_peak_bytes", snapshot.device_peak_bytes},
                                {"live_source_bytes", snapshot.live_source_bytes},
                                {"shared_bytes_saved", snapshot.shared_bytes_saved},
                                {"registrations", snapshot.registrations},
                                {"hits", snapshot.hits}}}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace npubank

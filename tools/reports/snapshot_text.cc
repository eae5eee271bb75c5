#include "npubank/tools/reports/snapshot_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

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
          {"why_held", tensor.why_held},
          {"origin", tensor.origin},
          {"stored_bytes", tensor.stored_bytes},
          {"alignment", tensor.alignment},
          {"pool", tensor.pool}};
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The keys that --sort takes. Numbers: the largest first.
using Less = bool (*)(const TensorSnapshot&, const TensorSnapshot&);
const std::vector<std::pair<absl::string_view, Less>>& SortKeys() {
  using Tensor = TensorSnapshot;
  static const auto* const keys = new std::vector<std::pair<absl::string_view, Less>>{
      {"name", [](const Tensor& a, const Tensor& b) { return a.name < b.name; }},
      {"uid", [](const Tensor& a, const Tensor& b) { return a.uid < b.uid; }},
      {"state", [](const Tensor& a, const Tensor& b) { return a.state < b.state; }},
      {"bytes", [](const Tensor& a, const Tensor& b) { return a.bytes > b.bytes; }},
      {"device-bytes",
       [](const Tensor& a, const Tensor& b) { return a.device_bytes > b.device_bytes; }},
      {"leases", [](const Tensor& a, const Tensor& b) { return a.leases > b.leases; }},
      {"hits", [](const Tensor& a, const Tensor& b) { return a.hits > b.hits; }},
      {"seconds", [](const Tensor& a,
                     const Tensor& b) { return a.evaluation_seconds > b.evaluation_seconds; }},
  };
  return *keys;
}

}  // namespace

bool HasText(const TensorSnapshot& tensor, const std::string& part) {
  return Contains(tensor.name, part) || Contains(tensor.recipe, part) ||
         Contains(tensor.state, part) || Contains(tensor.strategy, part) ||
         Contains(tensor.uid.ToHex(), part) ||
         std::any_of(tensor.owners.begin(), tensor.owners.end(),
                     [&](const std::string& owner) { return Contains(owner, part); });
}

absl::Status SortTensors(const std::string& key, BankSnapshot& snapshot) {
  std::vector<absl::string_view> known;
  for (const auto& [name, less] : SortKeys()) {
    if (name == key) {
      std::stable_sort(snapshot.tensors.begin(), snapshot.tensors.end(), less);
      return absl::OkStatus();
    }
    known.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--sort '", key, "' is not one of ", absl::StrJoin(known, ", ")));
}

std::string SnapshotAsTable(const BankSnapshot& snapshot, const std::string& filter) {
  TextTable table(
      {{"uid"}, {"state"}, {"bytes", TextTable::kRight}, {"strategy"}, {"owners"}, {"recipe"}});
  size_t shown = 0;
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    if (!HasText(tensor, filter)) continue;
    ++shown;
    table.AddRow({tensor.uid.ToHex(), tensor.state, absl::StrCat(tensor.bytes), tensor.strategy,
                  absl::StrJoin(tensor.owners, ","), tensor.recipe});
  }
  std::string text = absl::StrCat(table.AsColumns(), "\n");
  if (shown < snapshot.tensors.size()) absl::StrAppend(&text, shown, " shown of ");
  absl::StrAppend(&text, snapshot.tensors.size(), " tensors of ", snapshot.owners.size(),
                  " owners, ", snapshot.unique_bytes, " bytes\ndevice: ", snapshot.device_bytes,
                  " bytes now, ", snapshot.device_peak_bytes,
                  " at the peak\nsaved by sharing: ", snapshot.shared_bytes_saved, " bytes, ",
                  snapshot.hits, " hits in ", snapshot.registrations,
                  " registrations\nlive source bytes: ", snapshot.live_source_bytes, "\n");
  return text;
}

std::string SnapshotAsCsv(const BankSnapshot& snapshot, const std::string& filter) {
  TextTable table({{"uid"},
                   {"digest"},
                   {"name"},
                   {"type"},
                   {"state"},
                   {"bytes"},
                   {"device_bytes"},
                   {"device_address"},
                   {"strategy"},
                   {"source_bytes"},
                   {"leases"},
                   {"hits"},
                   {"evaluation_seconds"},
                   {"owners"},
                   {"recipe"},
                   {"why_held"},
                   {"origin"},
                   {"stored_bytes"},
                   {"alignment"},
                   {"pool"}});
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    if (!HasText(tensor, filter)) continue;
    table.AddRow({tensor.uid.ToHex(), tensor.digest.ToHex(), tensor.name, tensor.type, tensor.state,
                  absl::StrCat(tensor.bytes), absl::StrCat(tensor.device_bytes),
                  Hex(tensor.device_address), tensor.strategy, absl::StrCat(tensor.source_bytes),
                  absl::StrCat(tensor.leases), absl::StrCat(tensor.hits),
                  absl::StrCat(tensor.evaluation_seconds), absl::StrJoin(tensor.owners, ";"),
                  tensor.recipe, tensor.why_held, tensor.origin, absl::StrCat(tensor.stored_bytes),
                  absl::StrCat(tensor.alignment), absl::StrCat(tensor.pool)});
  }
  return table.AsCsv();
}

std::string SnapshotAsJson(const BankSnapshot& snapshot, const std::string& filter) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    if (HasText(tensor, filter)) tensors.push_back(TensorAsJson(tensor));
  }
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

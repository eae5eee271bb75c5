#include "npubank/tools/reports/weights_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

constexpr absl::string_view kStep = " -> ";  // between a stored tensor and what is done to it

// "q_proj.weight (scale)" is the part "scale" of "q_proj.weight".
struct PartName {
  explicit PartName(absl::string_view name) : weight(name) {
    const size_t at = name.rfind(" (");
    if (at == absl::string_view::npos || !absl::EndsWith(name, ")")) return;
    weight = name.substr(0, at);
    part = name.substr(at + 2, name.size() - at - 3);
  }
  absl::string_view weight;
  absl::string_view part;  // empty: the numbers
};

std::string HowItCame(const TensorSnapshot& tensor) {
  if (tensor.state != "resident") return tensor.state;
  if (tensor.strategy == "imported") return tensor.origin == "cache" ? "imported from the cache" : "imported";
  if (tensor.origin == "misaligned") return "copied: not where the device takes arguments";
  if (tensor.origin == "cache") return "copied from the cache";
  if (tensor.origin != "transformed") return "copied as stored";
  const size_t at = absl::string_view(tensor.recipe).find(kStep);
  return absl::StrCat("transformed: ", at == absl::string_view::npos
                                           ? tensor.recipe
                                           : tensor.recipe.substr(at + kStep.size()));
}

// A weight's parts.
class WeightRow {
 public:
  void Add(const TensorSnapshot& tensor, absl::string_view part) {
    parts_.push_back(absl::StrCat(part, part.empty() ? "" : " ", tensor.type));
    device_bytes_ += tensor.bytes;
    known_ = known_ && tensor.stored_bytes > 0;
    // Planes of one stored tensor are each made of all of it.
    const std::vector<std::string> leaf = absl::StrSplit(tensor.recipe, kStep);
    uint64_t& stored = stored_[leaf.front()];
    stored = std::max(stored, tensor.stored_bytes);
    const std::string how = HowItCame(tensor);
    if (ways_.insert(how).second) how_.push_back(how);
  }

  std::vector<std::string> Cells(const std::string& name) const {
    uint64_t stored = 0;
    for (const auto& [leaf, bytes] : stored_) stored += bytes;
    return {name, absl::StrJoin(parts_, " + "), known_ ? absl::StrCat(stored) : "-",
            absl::StrCat(device_bytes_), absl::StrJoin(how_, "; ")};
  }

 private:
  std::vector<std::string> parts_;
  std::map<std::string, uint64_t> stored_;  // by stored tensor
  bool known_ = true;
  uint64_t device_bytes_ = 0;
  std::set<std::string> ways_;
  std::vector<std::string> how_;
};

}  // namespace

std::string WeightsAsTable(const BankSnapshot& snapshot, const std::string& filter) {
  std::vector<std::string> order;
  std::map<std::string, WeightRow> rows;
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    const PartName name(tensor.name);
    std::string weight(name.weight);
    if (!absl::StrContains(weight, filter)) continue;
    const auto [row, added] = rows.try_emplace(weight);
    if (added) order.push_back(weight);
    row->second.Add(tensor, name.part);
  }
  TextTable table({{"weight"},
                   {"parts"},
                   {"stored bytes", TextTable::kRight},
                   {"device bytes", TextTable::kRight},
                   {"how it came"}});
  for (const std::string& weight : order) table.AddRow(rows.at(weight).Cells(weight));
  return absl::StrCat(table.AsColumns(), "\n", order.size(), " weights\n");
}

}  // namespace npubank

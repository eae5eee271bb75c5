#include "npubank/tools/reports/report_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace npubank {

std::string Mebibytes(uint64_t bytes) {
  return absl::StrFormat("%.2f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.1f ms", seconds * 1000); }

std::string MemoryInWords(absl::string_view strategy, const std::vector<std::string>& notices) {
  return absl::StrCat(strategy, notices.empty() ? "" : ": ", absl::StrJoin(notices, "; "));
}

void ReportLine(std::string& out, absl::string_view what, absl::string_view value) {
  absl::StrAppendFormat(&out, "  %-30s %s\n", what, value);
}

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace npubank

// What reports are written with: figures as text, and JSON that any text survives.
#ifndef NPUBANK_TOOLS_REPORTS_REPORT_TEXT_H_
#define NPUBANK_TOOLS_REPORTS_REPORT_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace npubank {

std::string Mebibytes(uint64_t bytes);
std::string Milliseconds(double seconds);
// The strategy, and what the driver lacks of what was asked for.
std::string MemoryInWords(absl::string_view strategy, const std::vector<std::string>& notices);
// Appends "  what          value\n".
void ReportLine(std::string& out, absl::string_view what, absl::string_view value);

// Indented, with a final newline. A text that ends inside a UTF-8 sequence is mended, not an error.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_REPORT_TEXT_H_

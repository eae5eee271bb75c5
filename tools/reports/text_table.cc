#include "npubank/tools/reports/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace npubank {

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string>& titles = rows_.emplace_back();
  for (const Column& column : columns_) titles.push_back(column.title);
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

// As wide as the widest cell; the last column is left as it is.
std::string TextTable::AsColumns() const {
  std::vector<std::vector<std::string>> rows = rows_;
  std::vector<size_t> widths(columns_.size(), 0);
  for (std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = row[i].empty() ? "-" : absl::CEscape(row[i]);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool right = columns_[i].alignment == kRight;
      absl::StrAppend(&text, right ? padding : "", row[i], right ? "" : padding, "  ");
    }
    absl::StrAppend(&text, row.back(), "\n");
  }
  return text;
}

std::string TextTable::AsCsv() const {
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool quoted = row[i].find_first_of(",\"\r\n") != std::string::npos;
      absl::StrAppend(&text, i == 0 ? "" : ",");
      if (quoted) {
        absl::StrAppend(&text, "\"", absl::StrReplaceAll(row[i], {{"\"", "\"\""}}), "\"");
      } else {
        text += row[i];
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace npubank

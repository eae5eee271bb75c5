// TextTable: rows of texts as columns for people or as CSV for spreadsheets.
//
//   TextTable table({{"name"}, {"bytes", TextTable::kRight}});
//   table.AddRow({"layers.0.wq", "1179648"});
//   std::fputs(table.AsColumns().c_str(), stdout);
//
// Cells may hold anything: in columns what cannot be printed is escaped and an empty cell is a "-";
// CSV quotes as RFC 4180 does. Every row has as many cells as there are columns.
#ifndef NPUBANK_TOOLS_REPORTS_TEXT_TABLE_H_
#define NPUBANK_TOOLS_REPORTS_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace npubank {

class TextTable {
 public:
  enum Alignment { kLeft, kRight };
  struct Column {
    std::string title;
    Alignment alignment = kLeft;
  };

  explicit TextTable(std::vector<Column> columns);
  void AddRow(std::vector<std::string> cells);
  std::string AsColumns() const;
  std::string AsCsv() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // the titles are the first
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_TEXT_TABLE_H_

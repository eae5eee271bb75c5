#include "npubank/compiler_stub/planner/files/csv.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr char kHeader[] = "id,lower,upper,size";
constexpr char kHeaderWithOffset[] = "id,lower,upper,size,offset";

absl::StatusOr<int64_t> ParseNumber(absl::string_view field, absl::string_view name) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(field, &number) || number < 0) {
    // A hostile field can be megabytes long.
    return absl::InvalidArgumentError(absl::StrCat(name, " '", field.substr(0, 40),
                                                   "' is not a number from 0 to ",
                                                   std::numeric_limits<int64_t>::max()));
  }
  return number;
}

absl::Status ParseLine(absl::string_view line, bool with_offset, CsvProblem* csv) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  const size_t expected = with_offset ? 5 : 4;
  if (fields.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.size(), " fields, the header has ", expected));
  }
  Buffer buffer;
  buffer.id = std::string(fields[0]);
  NPUBANK_ASSIGN_OR_RETURN(buffer.lower, ParseNumber(fields[1], "lower"));
  NPUBANK_ASSIGN_OR_RETURN(buffer.upper, ParseNumber(fields[2], "upper"));
  NPUBANK_ASSIGN_OR_RETURN(buffer.size, ParseNumber(fields[3], "size"));
  if (buffer.lower >= buffer.upper) {
    return absl::InvalidArgumentError(
        absl::StrCat("lower ", buffer.lower, " is not below upper ", buffer.upper));
  }
  if (with_offset) {
    NPUBANK_ASSIGN_OR_RETURN(const int64_t offset, ParseNumber(fields[4], "offset"));
    csv->offsets.push_back(offset);
  }
  csv->problem.buffers.push_back(std::move(buffer));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CsvProblem> ParseCsv(absl::string_view text) {
  CsvProblem csv;
  int64_t line_number = 0;
  bool with_offset = false;
  uint64_t room = std::numeric_limits<int64_t>::max() - kMaxBuffers;  // to align each
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = absl::StripTrailingAsciiWhitespace(line);
    absl::Status status;
    if (line_number == 1) {
      with_offset = line == kHeaderWithOffset;
      if (!with_offset && line != kHeader) {
        status =
            absl::InvalidArgumentError(absl::StrCat("the header is not '", kHeader, "[,offset]'"));
      }
    } else if (!line.empty()) {
      status = ParseLine(line, with_offset, &csv);
      if (status.ok()) {
        const uint64_t size = csv.problem.buffers.back().size;
        if (size > room) {
          status = absl::InvalidArgumentError("the sizes up to here pass 2^63");
        } else if (csv.problem.buffers.size() > static_cast<size_t>(kMaxBuffers)) {
          status = absl::InvalidArgumentError(absl::StrCat("more than ", kMaxBuffers, " buffers"));
        }
        room -= size;
      }
    }
    if (!status.ok()) return Annotate(status, absl::StrCat("line ", line_number));
  }
  NPUBANK_RETURN_IF_ERROR(CheckProblem(csv.problem));
  return csv;
}

absl::StatusOr<std::string> FormatCsv(const Problem& problem, absl::Span<const uint64_t> offsets) {
  if (!offsets.empty() && offsets.size() != problem.buffers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(offsets.size(), " offsets for ", problem.buffers.size(), " buffers"));
  }
  std::string text = absl::StrCat(offsets.empty() ? kHeader : kHeaderWithOffset, "\n");
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.id.find_first_of(",\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer '", buffer.id, "' cannot be written: its id breaks the line"));
    }
    absl::StrAppend(&text, buffer.id, ",", buffer.lower, ",", buffer.upper, ",", buffer.size);
    if (!offsets.empty()) absl::StrAppend(&text, ",", offsets[i]);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace npubank

// CSV in and out, the format of published planning problems: a header, then a line for each buffer.
//
//   id,lower,upper,size           lifetimes are half-open
//   q,2,6,4096
//
// with a fifth column `offset` when a plan is part of it. Alignments and parallel pairs are not.
//
// A file is hostile until parsed. InvalidArgument names the line and what is wrong with it: a
// header that is not the one above, a number of fields that is not the header's, a number that is
// not one or is negative or does not fit, lower >= upper, sizes that together pass 63 bits. Cost:
// linear. Threads: pure.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_FILES_CSV_H_
#define NPUBANK_COMPILER_STUB_PLANNER_FILES_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

struct CsvProblem {
  Problem problem;                // passes CheckProblem
  std::vector<uint64_t> offsets;  // one per buffer, or none when the file has no such column
};

absl::StatusOr<CsvProblem> ParseCsv(absl::string_view text);

// The inverse; no `offsets` column when they are empty. InvalidArgument for an id that holds a
// comma or a line break, and for a number of offsets that is neither 0 nor one per buffer.
absl::StatusOr<std::string> FormatCsv(const Problem& problem, absl::Span<const uint64_t> offsets);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_FILES_CSV_H_

// Command lines: absl flags, spelled with dashes.
//
//   ABSL_FLAG(std::string, prompt_ids, "", "token ids, comma-separated");
//   int main(int argc, char** argv) { ParseFlags("What this program does.", argc, argv); ... }
//
// `--prompt-ids 1,2` and `--prompt_ids=1,2` are the same flag. A flag that is unknown, or an
// argument that belongs to none, ends the program with one line and status 1.
#ifndef NPUBANK_TOOLS_COMMAND_LINE_H_
#define NPUBANK_TOOLS_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace npubank {

// In place: dashes inside flags' names become underscores, as absl knows them. Values, and whatever
// stands after a lone "--", are left alone.
void RewriteDashes(int argc, char** argv);

// Returns the arguments that are not flags, without the program's name.
std::vector<std::string> ParseFlags(absl::string_view usage, int argc, char** argv);

// Prints "error: ..." on one line and returns the exit status 1; returns 0 for OK.
int ExitStatus(const absl::Status& status);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_COMMAND_LINE_H_

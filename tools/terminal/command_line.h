// Command lines: absl flags, spelled with dashes, and a help that shows them in groups.
//
//   ABSL_FLAG(std::string, prompt_ids, "", "token ids, comma-separated");
//   const ProgramHelp kHelp = {.name = "speak", .purpose = "continues a text",
//                              .examples = {"speak --prompt-ids 1,2"},
//                              .groups = {{"What to say", {{"prompt_ids", "IDS"}}}}};
//   int main(int argc, char** argv) { ParseFlags(kHelp, argc, argv); ... }
//
// `--prompt-ids 1,2` and `--prompt_ids=1,2` are the same flag. `--help` prints the help and ends the
// program with status 0; a flag that is unknown, or whose value is of another kind, ends it with a
// line that says so and status 1.
#ifndef NPUBANK_TOOLS_TERMINAL_COMMAND_LINE_H_
#define NPUBANK_TOOLS_TERMINAL_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace npubank {

struct OptionHelp {
  std::string flag;   // as ABSL_FLAG declares it; what it is for is said there
  std::string value;  // what stands for its value: "FILE"; empty for a switch
};

struct OptionGroup {
  std::string title;
  std::vector<OptionHelp> options;
};

struct ProgramHelp {
  std::string name;
  std::string purpose;  // one line, after the name
  std::vector<std::string> examples;
  std::vector<OptionGroup> groups;
};

// What --help prints. A flag of the program that is in no group comes last, under "Other options".
std::string HelpText(const ProgramHelp& help);

// In place: dashes inside flags' names become underscores, as absl knows them. Values, and whatever
// stands after a lone "--", are left alone.
void RewriteDashes(int argc, char** argv);

// Returns the arguments that are not flags, without the program's name.
std::vector<std::string> ParseFlags(const ProgramHelp& help, int argc, char** argv);

// InvalidArgument for the first of them: what programs say that take nothing but options.
absl::Status RefuseArguments(absl::Span<const std::string> arguments);
// InvalidArgument for the first of these flags that was given another value than its default:
// `why` says where it belongs.
absl::Status RefuseFlags(absl::Span<const absl::string_view> flags, absl::string_view why);

// Prints "error: ..." on one line and returns the exit status 1; returns 0 for OK.
int ExitStatus(const absl::Status& status);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TERMINAL_COMMAND_LINE_H_

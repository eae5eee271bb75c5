#include "npubank/tools/command_line.h"

#include <cstdio>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_replace.h"

namespace npubank {

void RewriteDashes(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-' || argv[i][1] != '-') continue;
    if (argv[i][2] == '\0') return;
    for (char* at = argv[i] + 2; *at != '\0' && *at != '='; ++at)
      if (*at == '-') *at = '_';
  }
}

std::vector<std::string> ParseFlags(absl::string_view usage, int argc, char** argv) {
  RewriteDashes(argc, argv);
  absl::SetProgramUsageMessage(usage);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  return std::vector<std::string>(rest.begin() + 1, rest.end());
}

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message =
      absl::StrReplaceAll(std::string(status.message()), {{"\n", " "}, {"\r", " "}});
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

}  // namespace npubank

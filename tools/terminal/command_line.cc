#include "npubank/tools/terminal/command_line.h"

#include <cstdio>
#include <cstdlib>
#include <set>

#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "npubank/tools/terminal/standard_streams.h"

namespace npubank {
namespace {

constexpr size_t kTextColumn = 26;
constexpr size_t kLastColumn = 100;

std::string Spelled(absl::string_view flag) {
  return absl::StrCat("--", absl::StrReplaceAll(flag, {{"_", "-"}}));
}

// Words from `column` on, on as many lines as they need.
void AppendWrapped(std::string& out, size_t column, absl::string_view text) {
  size_t at = out.size() - (out.rfind('\n') + 1);  // npos + 1 is 0
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (at > column && at + 1 + word.size() > kLastColumn) {
      out += '\n';
      at = 0;
    }
    const size_t gap = at < column ? column - at : at > 0 ? 1 : 0;
    absl::StrAppend(&out, std::string(gap, ' '), word);
    at += gap + word.size();
  }
  out += '\n';
}

void AppendOption(std::string& out, const OptionHelp& option) {
  const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(option.flag);
  if (flag == nullptr) return;
  absl::StrAppend(&out, "  ", Spelled(option.flag), option.value.empty() ? "" : " ", option.value,
                  " ");
  const std::string value = flag->DefaultValue();
  const bool says_something = !value.empty() && value != "false" && !option.value.empty();
  AppendWrapped(
      out, kTextColumn,
      absl::StrCat(flag->Help(), says_something ? absl::StrCat(" (default: ", value, ")") : ""));
}

// The program's own flags that no group has, absl's aside.
OptionGroup Others(const ProgramHelp& help) {
  std::set<std::string> grouped;
  for (const OptionGroup& group : help.groups)
    for (const OptionHelp& option : group.options) grouped.insert(option.flag);
  std::set<std::string> others;
  for (const auto& [name, flag] : absl::GetAllFlags())
    if (grouped.count(std::string(name)) == 0 && !absl::StrContains(flag->Filename(), "absl/flags"))
      others.insert(std::string(name));
  OptionGroup group{"Other options", {}};
  for (const std::string& name : others)
    group.options.push_back(
        {name, absl::FindCommandLineFlag(name)->IsOfType<bool>() ? "" : "VALUE"});
  return group;
}

bool AsksForHelp(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view word = argv[i];
    if (word == "--") return false;
    if (word == "--help" || word == "-help" || word == "-h") return true;
  }
  return false;
}

}  // namespace

std::string HelpText(const ProgramHelp& help) {
  std::string out;
  AppendWrapped(out, 0, absl::StrCat(help.name, " ", help.purpose, "."));
  out += "\nExamples:\n";
  for (const std::string& example : help.examples) absl::StrAppend(&out, "  ", example, "\n");
  std::vector<OptionGroup> groups = help.groups;
  groups.push_back(Others(help));
  for (const OptionGroup& group : groups) {
    if (group.options.empty()) continue;
    absl::StrAppend(&out, "\n", group.title, ":\n");
    for (const OptionHelp& option : group.options) AppendOption(out, option);
  }
  return out;
}

void RewriteDashes(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-' || argv[i][1] != '-') continue;
    if (argv[i][2] == '\0') return;
    for (char* at = argv[i] + 2; *at != '\0' && *at != '='; ++at)
      if (*at == '-') *at = '_';
  }
}

std::vector<std::string> ParseFlags(const ProgramHelp& help, int argc, char** argv) {
  GuardStandardStreams();
  if (AsksForHelp(argc, argv)) {
    std::fputs(HelpText(help).c_str(), stdout);
    std::exit(0);
  }
  RewriteDashes(argc, argv);
  absl::SetProgramUsageMessage(absl::StrCat(help.name, " ", help.purpose));
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  return std::vector<std::string>(rest.begin() + 1, rest.end());
}

absl::Status RefuseArguments(absl::Span<const std::string> arguments) {
  if (arguments.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", arguments[0], "' belongs to no option: see --help"));
}

absl::Status RefuseFlags(absl::Span<const absl::string_view> flags, absl::string_view why) {
  for (absl::string_view name : flags) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    if (flag != nullptr && flag->CurrentValue() != flag->DefaultValue())
      return absl::InvalidArgumentError(absl::StrCat(Spelled(name), " ", why));
  }
  return absl::OkStatus();
}

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message =
      absl::StrReplaceAll(std::string(status.message()), {{"\n", " "}, {"\r", " "}});
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

}  // namespace npubank

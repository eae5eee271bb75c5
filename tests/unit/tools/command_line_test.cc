#include "npubank/tools/terminal/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, grouped_name, "none", "a value that one option of the test has");
ABSL_FLAG(bool, forgotten, false, "in no group");

namespace npubank {
namespace {

using ::testing::HasSubstr;

TEST(CommandLineTest, HelpHasExamplesGroupsDefaultsAndWhatNoGroupHas) {
  const ProgramHelp help = {.name = "speak",
                            .purpose = "continues a text",
                            .examples = {"speak --grouped-name x"},
                            .groups = {{"What to say", {{"grouped_name", "NAME"}}}}};
  EXPECT_EQ(HelpText(help),
            "speak continues a text.\n\nExamples:\n  speak --grouped-name x\n\nWhat to say:\n"
            "  --grouped-name NAME     a value that one option of the test has (default: none)\n\n"
            "Other options:\n  --forgotten             in no group\n");
}

TEST(CommandLineTest, WhatBelongsElsewhereIsRefusedByName) {
  EXPECT_TRUE(RefuseArguments({}).ok());
  EXPECT_THAT(std::string(RefuseArguments({"stray"}).message()), HasSubstr("'stray'"));
  EXPECT_TRUE(RefuseFlags({"grouped_name"}, "is for others").ok());
  absl::SetFlag(&FLAGS_grouped_name, "given");
  EXPECT_EQ(RefuseFlags({"grouped_name"}, "is for others").message(),
            "--grouped-name is for others");
  absl::SetFlag(&FLAGS_grouped_name, "none");
}

TEST(CommandLineTest, DashesInNamesBecomeUnderscores) {
  std::vector<std::string> words = {"bin", "--kv-heads=4-5", "--prompt-ids", "1-2", "-x-y",
                                    "--",  "--left-alone"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  RewriteDashes(static_cast<int>(argv.size()), argv.data());
  EXPECT_THAT(words, testing::ElementsAre("bin", "--kv_heads=4-5", "--prompt_ids", "1-2", "-x-y",
                                          "--", "--left-alone"));
}

TEST(CommandLineTest, ErrorsAreOneLineAndStatusOne) {
  EXPECT_EQ(ExitStatus(absl::OkStatus()), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ExitStatus(absl::NotFoundError("no\nsuch\rfile")), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: no such file\n");
}

}  // namespace
}  // namespace npubank

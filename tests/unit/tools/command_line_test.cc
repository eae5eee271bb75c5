#include "npubank/tools/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace npubank {
namespace {

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

// What a program says arrives, or the program says that it does not: full disks, closed outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "npubank/bank/files/cache_file.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Runs it as a shell would with `redirections` behind it.
ProgramResult RunRedirected(const std::string& redirections, std::vector<std::string> program) {
  std::vector<std::string> arguments = {"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirections};
  arguments.insert(arguments.end(), program.begin(), program.end());
  return RunProgram(arguments);
}

class StandardStreamsTest : public ::testing::Test {
 protected:
  std::vector<std::string> BankRun() const {
    return {NPUBANK_BIN "/bank-run",
            "--device",
            "software",
            "--model",
            model_.folder(),
            "--prompt-ids",
            "1,2,3",
            "--tokens",
            "2",
            "--weights",
            "f16",
            "--cache",
            cache_};
  }

  const TestModel model_;
  const TemporaryFolder folder_;
  const std::string cache_ = folder_.File("weights.cache");
};

TEST_F(StandardStreamsTest, AFullDiskIsAnErrorOfEveryProgram) {
  for (const char* program : {"bank-run", "bank-inspect", "make-checkpoint", "load-benchmark",
                              "memory-benchmark", "plan_benchmark"}) {
    SCOPED_TRACE(program);
    const std::vector<std::string> help = {std::string(NPUBANK_BIN "/") + program, "--help"};
    const ProgramResult result = RunRedirected(">/dev/full", help);
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_EQ(result.error, "error: the output could not be written: No space left on device\n");
    EXPECT_EQ(RunProgram(help).exit_status, 0) << "the control";
  }
}

TEST_F(StandardStreamsTest, AStoryThatNobodyCanReadIsAnError) {
  const ProgramResult full = RunRedirected(">/dev/full", BankRun());
  EXPECT_EQ(full.exit_status, 1);
  EXPECT_THAT(full.error, HasSubstr("error: the output could not be written"));
  const ProgramResult closed = RunRedirected(">&-", BankRun());
  EXPECT_EQ(closed.exit_status, 1);
  EXPECT_THAT(closed.error, HasSubstr("error: the output could not be written"));
  const ProgramResult control = RunProgram(BankRun());
  EXPECT_EQ(control.exit_status, 0) << control.error;
  EXPECT_THAT(control.error, IsEmpty());
}

// Without descriptors 0 to 2 the first files that the program opened had their numbers: the story
// went into a checkpoint or the cache.
TEST_F(StandardStreamsTest, NothingIsSaidIntoTheProgramsOwnFiles) {
  for (const char* closed : {"<&- >&- 2>&-", "<&- 2>&-", "2>&-", "<&-"}) {
    SCOPED_TRACE(closed);
    const bool says = std::string(closed).find(">&- ") == std::string::npos;
    const ProgramResult result = RunRedirected(closed, BankRun());
    EXPECT_EQ(result.exit_status, says ? 0 : 1);
    const auto cache = CacheFile::Open({.path = cache_, .verify_at_open = true});
    EXPECT_THAT(cache->Report().problems, IsEmpty());
    EXPECT_GT(cache->Report().entries, 0u);
    std::ifstream file(cache_, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    EXPECT_EQ(bytes.str().find("tokens"), std::string::npos) << "of the report";
    EXPECT_EQ(RunProgram(BankRun()).exit_status, 0);
    std::remove(cache_.c_str());
  }
}

}  // namespace
}  // namespace npubank

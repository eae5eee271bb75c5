// bank-run with a cache of weights: the second start, and what goes wrong with the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/tests/integration/programs/programs_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using CachedRunsTest = ProgramsTest;

TEST_F(CachedRunsTest, ASecondRunWithACacheTransformsNothingAndSaysTheSame) {
  const std::vector<std::string> more = {
      "--prompt-ids", "1,2,3", "--tokens", "5",
      "--report",     "json",  "--cache",  model_.file("weights.cache")};
  const nlohmann::json cold = JsonOf(RunProgram(BankRun(more)));
  const nlohmann::json warm = JsonOf(RunProgram(BankRun(more)));
  EXPECT_GT(cold["transformations"], 0);
  EXPECT_EQ(cold["cache_hits"], 0);
  EXPECT_EQ(warm["transformations"], 0);
  EXPECT_EQ(warm["cache_hits"], cold["transformations"]);
  EXPECT_EQ(warm["ids"], cold["ids"]);
}

TEST_F(CachedRunsTest, TheDemoModelStartsAgainFromTheCacheWithoutATransformationAndSaysTheSame) {
  const TestModel demo{CheckpointShape()};
  const std::vector<std::string> arguments = {
      kBankRun,   "--device", "software",     "--model",   demo.folder(), "--tokens",        "4",
      "--report", "json",     "--prompt-ids", "1,100,200", "--cache",     demo.file("cache"),
      "--weights", "f16"};
  const nlohmann::json cold = JsonOf(RunProgram(arguments));
  const nlohmann::json warm = JsonOf(RunProgram(arguments));
  EXPECT_EQ(cold["transformations"], cold["unique_weights"]);
  EXPECT_EQ(warm["transformations"], 0);
  EXPECT_EQ(warm["cache_hits"], warm["unique_weights"]);
  EXPECT_EQ(warm["ids"], cold["ids"]);
  std::printf("%.0f MiB of weights: warm load / cold load = %.3f\n",
              cold["weight_bytes"].get<double>() / (1 << 20),
              warm["load_seconds"].get<double>() / cold["load_seconds"].get<double>());
}

TEST_F(CachedRunsTest, ADamagedCacheIsReportedAndNotUsed) {
  const std::string cache = model_.file("weights.cache");
  const std::vector<std::string> more = {"--prompt-ids", "1,2,3", "--tokens", "5",
                                         "--report",     "json",  "--cache",  cache};
  const nlohmann::json cold = JsonOf(RunProgram(BankRun(more)));
  WriteWholeFile(cache, ReadWholeFile(cache).substr(0, 100));
  const ProgramResult run = RunProgram(BankRun(more));
  EXPECT_THAT(run.error, HasSubstr("weights.cache"));
  const nlohmann::json json = JsonOf(run);
  EXPECT_EQ(json["transformations"], cold["transformations"]);
  EXPECT_EQ(json["ids"], cold["ids"]);
}

TEST_F(CachedRunsTest, ACacheStaysWithinItsLimit) {
  const std::string cache = model_.file("weights.cache");
  const std::vector<std::string> run = {"--weights",    "f32",    "--prompt-ids", "1",
                                        "--cache",      cache,    "--tokens",     "1",
                                        "--report",     "json",   "--cache-limit"};
  std::vector<std::string> limited = run;
  limited.push_back("40000");
  const ProgramResult first = RunProgram(BankRun(limited));
  ASSERT_EQ(first.exit_status, 0) << first.error;
  EXPECT_LE(std::filesystem::file_size(cache), 40000u);
  const auto warm = JsonOf(RunProgram(BankRun(limited)));
  EXPECT_GT(warm["cache_hits"], 0);
  ASSERT_EQ(warm["cache_notices"].size(), 1u) << "once: " << warm["cache_notices"];
  EXPECT_THAT(warm["cache_notices"][0].get<std::string>(), HasSubstr("its limit is 40000"));
  ExpectOneClearLine(RunProgram(BankRun({"--cache-limit", "40000"})), "--cache");
}

TEST_F(CachedRunsTest, AFullDiskCostsNoMoreThanTheCache) {
  const std::string cache = model_.file("weights.cache");
  std::string command = "trap '' XFSZ; ulimit -f 32; exec";  // no file over 16 KiB
  for (const std::string& word :
       BankRun({"--weights", "f32", "--prompt-ids", "1", "--tokens", "1", "--cache", cache})) {
    absl::StrAppend(&command, " '", word, "'");
  }
  const ProgramResult run = RunProgram({"/bin/sh", "-c", command});
  EXPECT_EQ(run.exit_status, 0) << run.error;
  EXPECT_THAT(run.error, HasSubstr("weights.cache"));
  EXPECT_FALSE(std::filesystem::exists(cache));
}

TEST_F(CachedRunsTest, ACacheThatCannotBeWrittenIsSaidOnceAndCostsOnlyTheCache) {
  const std::string cache = "/proc/weights.cache";
  const std::vector<std::string> more = {"--prompt-ids", "1,2,3", "--tokens", "5",
                                         "--cache",      cache};
  const ProgramResult text = RunProgram(BankRun(more));
  EXPECT_EQ(text.exit_status, 0) << text.error;
  EXPECT_EQ(std::count(text.error.begin(), text.error.end(), '\n'), 1) << text.error;
  EXPECT_THAT(text.error, HasSubstr(cache));
  EXPECT_THAT(text.out, ContainsRegex("weights cache +.*/proc/weights.cache"));
  std::vector<std::string> as_json = more;
  as_json.insert(as_json.end(), {"--report", "json"});
  const nlohmann::json json = JsonOf(RunProgram(BankRun(as_json)));
  ASSERT_EQ(json["cache_notices"].size(), 1u) << json["cache_notices"];
  EXPECT_THAT(json["cache_notices"][0].get<std::string>(), HasSubstr(cache));
  const std::vector<std::string> plain = {"--prompt-ids", "1,2,3", "--tokens", "5",
                                          "--report",     "json"};
  EXPECT_EQ(json["ids"], JsonOf(RunProgram(BankRun(plain)))["ids"]);
}

}  // namespace
}  // namespace npubank

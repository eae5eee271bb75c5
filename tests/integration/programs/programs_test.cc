// bank-run and bank-inspect as a user meets them: what they print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/integration/programs/programs_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ProgramsTest, TheJsonReportHasEveryDocumentedKeyAndItsFiguresAgree) {
  const ProgramResult result =
      RunProgram(BankRun({"--prompt-ids", "1,2,3", "--tokens", "5", "--report", "json"}));
  ASSERT_EQ(result.exit_status, 0) << result.error;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  for (const char* key : {"device",
                          "ids",
                          "text",
                          "prompt_tokens",
                          "generated_tokens",
                          "submodels",
                          "unique_weights",
                          "weight_bytes",
                          "shared_bytes_saved",
                          "device_weight_bytes",
                          "models",
                          "turns",
                          "audit",
                          "cache_notices",
                          "device_bytes",
                          "device_peak_bytes",
                          "arena_bytes",
                          "cache_bytes",
                          "live_source_bytes",
                          "transformations",
                          "cache_hits",
                          "misaligned_weights",
                          "misaligned_bytes",
                          "argument_alignment",
                          "peak_anonymous_bytes",
                          "load_seconds",
                          "compile_seconds",
                          "weights_seconds",
                          "prompt_tokens_per_second",
                          "generated_tokens_per_second"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["live_source_bytes"], 0);
  EXPECT_EQ(json["submodels"][1]["hits"], json["unique_weights"]);
  EXPECT_EQ(json["shared_bytes_saved"], json["weight_bytes"]);
  EXPECT_GE(json["device_peak_bytes"], json["device_weight_bytes"]);
  EXPECT_EQ(json["ids"].size(),
            json["prompt_tokens"].get<size_t>() + json["generated_tokens"].get<size_t>());
}

TEST_F(ProgramsTest, LoadOnlyLoadsEverythingAndExecutesNothing) {
  const ProgramResult result = RunProgram(BankRun({"--load-only", "--report", "json"}));
  ASSERT_EQ(result.exit_status, 0) << result.error;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_GT(json["device_weight_bytes"], 0);
  EXPECT_EQ(json["prompt_tokens"], 0);
  EXPECT_EQ(json["ids"].size(), 0u);
}

TEST_F(ProgramsTest, TheSnapshotOfARunIsWhatBankInspectPrints) {
  const std::string file = model_.file("run.bank");
  ASSERT_EQ(RunProgram(BankRun({"--tokens", "1", "--snapshot", file})).exit_status, 0);
  const ProgramResult table = RunProgram({kBankInspect, file});
  ASSERT_EQ(table.exit_status, 0) << table.error;
  EXPECT_THAT(table.out, HasSubstr("resident"));
  EXPECT_THAT(table.out, HasSubstr("prefill"));
  EXPECT_THAT(table.out, HasSubstr("convert(F16)"));
  const ProgramResult json = RunProgram({kBankInspect, file, "--format", "json"});
  ASSERT_EQ(json.exit_status, 0) << json.error;
  EXPECT_FALSE(nlohmann::json::parse(json.out, nullptr, false).is_discarded());
}

// A weight in parts is one line, which says how it lies, what it costs and how it came there.
TEST_F(ProgramsTest, TheWeightsOfASnapshotAreShownWithTheirPartsTogether) {
  CheckpointShape shape = TinyShape();
  shape.format = CheckpointFormat::kAwq;
  const TestModel awq(shape);
  const std::string snapshot = awq.file("run.bank");
  const auto weights = [&](const std::string& format) {
    const ProgramResult run =
        RunProgram({kBankRun, "--device", "software", "--model", awq.model(), "--prompt-ids", "1,2",
                    "--tokens", "1", "--weights", format, "--snapshot", snapshot});
    EXPECT_EQ(run.exit_status, 0) << run.error;
    const ProgramResult shown =
        RunProgram({kBankInspect, "weights", snapshot, "--filter", "layers.1.self_attn.k_proj"});
    EXPECT_EQ(shown.exit_status, 0) << shown.error;
    return shown.out;
  };
  const std::string kept = weights("keep");
  EXPECT_THAT(kept, HasSubstr("I32[64,4] + scale F16[1,32] + zero I32[1,4]"));
  EXPECT_THAT(kept, ContainsRegex("1104 +1104 +copied as stored"));
  EXPECT_THAT(kept, HasSubstr("\n1 weights\n"));
  const std::string packed = weights("packed");
  EXPECT_THAT(packed, HasSubstr("U4[32,64] + scale F16[32,1] + zero U4[32,1]"));
  EXPECT_THAT(packed, ContainsRegex("1104 +1104 +transformed: unpack_nibbles"));
}

TEST_F(ProgramsTest, HelpShowsEveryOptionInItsGroupWithExamples) {
  const std::map<std::string, std::vector<std::string>> programs = {
      {"bank-run", {"--model PATH", "--prompt-ids IDS", "--save-blobs DIR", "(default: auto)"}},
      {"bank-inspect", {"--sort KEY", "--svg FILE", "bank-inspect leaks", "bank-inspect diff"}},
      {"make-checkpoint", {"--kv-heads N", "--dtype TYPE", "(default: 32000)"}},
      {"bank-export", {"--out", "--weights"}},
      {"npubankd", {"--socket PATH", "--set-budget"}},
      {"npubank-keeper", {"--socket PATH", "-- npubankd"}},
      {"load-benchmark", {"--small"}},
      {"memory-benchmark", {"trace.txt"}},
      {"plan_benchmark", {"plan_benchmark"}}};
  for (const auto& [program, parts] : programs) {
    for (const char* spelling : {"--help", "-h"}) {
      const ProgramResult result = RunProgram({NPUBANK_BIN "/" + program, spelling});
      EXPECT_EQ(result.exit_status, 0) << program;
      EXPECT_EQ(result.error, "");
      EXPECT_EQ(result.out.rfind(program + " ", 0), 0u) << result.out;
      EXPECT_THAT(result.out, HasSubstr("\nExamples:\n  " + program));
      for (const std::string& part : parts) EXPECT_THAT(result.out, HasSubstr(part));
      EXPECT_THAT(result.out, Not(HasSubstr("Other options"))) << "every option has a group";
    }
  }
}

TEST_F(ProgramsTest, AModelThatHasSleptSaysTheSameAndTheReportSaysWhatWent) {
  const std::vector<std::string> speak = {"--prompt-ids", "1,2,3", "--tokens", "5",
                                          "--report",     "json",  "--sleep"};
  for (const char* memory : {"committed", "placed", "imported"}) {
    std::vector<std::string> more = speak;
    more.insert(more.end(), {"--memory", memory});
    const nlohmann::json json = JsonOf(RunProgram(BankRun(more)));
    const nlohmann::json sleep = json["sleep"];
    EXPECT_EQ(sleep["bytes_given_back"], json["device_weight_bytes"]) << memory;
    EXPECT_EQ(sleep["weight_bytes_left"], 0);
    EXPECT_LT(sleep["device_bytes"], json["device_bytes"]);
    EXPECT_EQ(sleep["bytes_brought_back"], json["weight_bytes"]);
    EXPECT_EQ(sleep["same_ids"], true);
    EXPECT_EQ(json["transformations"], 2 * json["unique_weights"].get<int>());
    EXPECT_EQ(json["generated_tokens"], 5);
    EXPECT_EQ(json["audit"]["clean"], true) << json["audit"];
  }
  const ProgramResult text = RunProgram(BankRun({"--tokens", "5", "--sleep"}));
  EXPECT_THAT(text.out, ContainsRegex("slept +weights gave .* stayed .* the driver held"));
  EXPECT_THAT(text.out, ContainsRegex("woke +.* said the same\n"));
  const nlohmann::json quiet =
      JsonOf(RunProgram(BankRun({"--load-only", "--sleep", "--report", "json"})));
  EXPECT_EQ(quiet["sleep"]["bytes_brought_back"], quiet["weight_bytes"]);
}

TEST_F(ProgramsTest, TheAuditIsInTheReport) {
  const ProgramResult text = RunProgram(BankRun({"--tokens", "2", "--memory", "committed"}));
  EXPECT_THAT(text.out, ContainsRegex("audit +OK: weights .* activations .* driver "));
  const nlohmann::json json = JsonOf(RunProgram(BankRun({"--tokens", "2", "--report", "json"})));
  const nlohmann::json audit = json["audit"];
  EXPECT_EQ(audit["clean"], true);
  EXPECT_EQ(audit["discrepancies"].size(), 0u);
  EXPECT_EQ(audit["weight_bytes"], json["device_weight_bytes"]);
  EXPECT_EQ(audit["weight_bytes"].get<uint64_t>() + audit["other_bytes"].get<uint64_t>(),
            audit["counted_bytes"]);
  EXPECT_GE(audit["driver_bytes"], audit["counted_bytes"]);
}

TEST_F(ProgramsTest, TheDeviceThatIsFoundMustBeTheOneThatWasAskedFor) {
  setenv("ZE_ENABLE_ALT_DRIVERS", NPUBANK_BIN "/libze_software_npu.so", 1);
  ExpectOneClearLine(
      RunProgram({kBankRun, "--model", model_.folder(), "--device", "hardware", "--tokens", "1"}),
      "no hardware NPU");
  for (const char* device : {"software", "auto"})
    EXPECT_EQ(RunProgram({kBankRun, "--model", model_.folder(), "--device", device, "--load-only"})
                  .exit_status,
              0);
  unsetenv("ZE_ENABLE_ALT_DRIVERS");
}

TEST_F(ProgramsTest, ASystemWithoutAThreadToGiveEndsNoProgramWithoutAWord) {
  // A thread's stack is as large as the limit says, and there is no room for one of that size.
  const ProgramResult result =
      RunProgram({"/bin/sh", "-c", "ulimit -s 700000000000 && exec \"$0\" \"$@\"", kBankRun,
                  "--device", "software", "--model", model_.folder(), "--tokens", "1"});
  if (result.error.find("ulimit") != std::string::npos) GTEST_SKIP() << result.error;
  // Under such a limit the kernel places mappings elsewhere, and ThreadSanitizer's own finds no room.
  if (result.error.find("unexpected memory mapping") != std::string::npos)
    GTEST_SKIP() << "not under this checker: " << result.error;
  EXPECT_THAT(result.exit_status, AnyOf(0, 1)) << result.error;
  EXPECT_THAT(result.error, Not(HasSubstr("terminate")));
}

}  // namespace
}  // namespace npubank

// Functions of another compiler through the programs, as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "npubank/tests/integration/foreign/foreign_fixture.h"
#include "npubank/tests/support/program.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// The programs, as a user meets them: on the driver that the environment names.
class ForeignProgramsTest : public ForeignFunctionTest {
 protected:
  std::string File(const std::string& name) { return folder_.File(name); }
  ProgramResult BankRun(std::vector<std::string> more) {
    more.insert(more.begin(), NPUBANK_BIN "/bank-run");
    return RunProgram(more);
  }
  // One line on standard error, nothing on standard output, status 1.
  static void ExpectOneClearLine(const ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.exit_status, 1) << result.out;
    EXPECT_THAT(result.error, HasSubstr(words));
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_EQ(result.out, "");
  }
};

TEST_F(ForeignProgramsTest, BankRunRunsAManifestWithInputsFromFiles) {
  folder_.Write("x.f32", BytesOf(ForeignSubmodel::Input()));
  const ProgramResult result =
      BankRun({"--manifest", submodel_.path(), "--input", "x=" + File("x.f32"), "--output",
               "y=" + File("y.f32"), "--snapshot", File("run.bank"), "--rounds", "2"});
  ASSERT_EQ(result.exit_status, 0) << result.error;
  EXPECT_EQ(ReadWholeFile(File("y.f32")),
            BytesOf(ForeignSubmodel::Expected(ForeignSubmodel::Input())));
  EXPECT_THAT(result.out, HasSubstr("5 calls of 1 functions; 10 weights"));
  const ProgramResult held = RunProgram({NPUBANK_BIN "/bank-inspect", File("run.bank")});
  EXPECT_THAT(held.out, HasSubstr("layers.4.bias"));
}

TEST_F(ForeignProgramsTest, WhatBankRunIsNotGivenOrDoesNotKnowItSays) {
  const std::vector<std::string> manifest = {"--manifest", submodel_.path()};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), manifest.begin(), manifest.end());
    return BankRun(more);
  };
  folder_.Write("short.f32", "1234");
  ExpectOneClearLine(with({}), "input 'x' needs a file: --input x=FILE");
  ExpectOneClearLine(with({"--input", "x"}), "--input 'x' is not NAME=FILE");
  ExpectOneClearLine(with({"--input", "z=" + File("short.f32")}), "no submodel has such an input");
  ExpectOneClearLine(with({"--output", "z=" + File("z")}), "no submodel has such an output");
  ExpectOneClearLine(with({"--input", "x=" + File("short.f32")}),
                     "has 4 bytes, but the input has 64");
  ExpectOneClearLine(with({"--input", "x=" + File("none")}), "none");
  ExpectOneClearLine(with({"--prompt", "Once"}), "not for a --manifest");
  ExpectOneClearLine(BankRun({"--manifest", File("none.json")}), "none.json");
  ExpectOneClearLine(BankRun({"--model", File("m"), "--input", "x=y"}), "is for a --manifest");
  EXPECT_EQ(with({"--load-only"}).exit_status, 0) << "loading takes no input";
}

TEST_F(ForeignProgramsTest, BankRunTakesTheWeightsOfAnotherModelWhenItIsGiven) {
  Json manifest = submodel_.manifest();
  manifest.erase("model");
  submodel_.Rewrite(manifest);
  ExpectOneClearLine(BankRun({"--manifest", submodel_.path(), "--load-only"}), "there is no model");
  const ProgramResult result = BankRun(
      {"--manifest", submodel_.path(), "--load-only", "--model", File("model.safetensors")});
  EXPECT_EQ(result.exit_status, 0) << result.error;
}

TEST_F(ForeignProgramsTest, BankInspectPrintsWhatTheDriverSaysOfABlob) {
  const std::string inspect = NPUBANK_BIN "/bank-inspect";
  const ProgramResult table = RunProgram({inspect, "function", File("layer.blob")});
  ASSERT_EQ(table.exit_status, 0) << table.error;
  EXPECT_THAT(table.out, ::testing::ContainsRegex("1 +input +weight +F32\\[16,16\\]"));
  EXPECT_THAT(table.out, ::testing::ContainsRegex("3 +output +y +F32\\[1,16\\]"));
  const ProgramResult json =
      RunProgram({inspect, "function", File("layer.blob"), "--format", "json"});
  const Json said = Json::parse(json.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << json.out << json.error;
  EXPECT_EQ(said["arguments"][2]["name"], "bias");
  folder_.Write("cut.blob", submodel_.blob().substr(0, 20));
  ExpectOneClearLine(RunProgram({inspect, "function", File("cut.blob")}), "cut.blob");
  ExpectOneClearLine(RunProgram({inspect, File("layer.blob"), "--device", "software"}),
                     "is for function only");
}

TEST_F(ForeignProgramsTest, TheExampleRunsAndTheSecondUserCostsNothing) {
  std::vector<float> x;
  for (int i = 0; i < ForeignSubmodel::kWidth; ++i) x.push_back(static_cast<float>(i));
  std::string y = "y F32[1,16]:";
  for (float number : ForeignSubmodel::Expected(x)) y += absl::StrFormat(" %g", number);
  const ProgramResult result = RunProgram({NPUBANK_BIN "/foreign_function", submodel_.path()});
  ASSERT_EQ(result.exit_status, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr(y + "\nfirst: 0 of 10 weights"));
  EXPECT_THAT(result.out, HasSubstr(y + "\nsecond: 10 of 10 weights"));
}

}  // namespace
}  // namespace npubank

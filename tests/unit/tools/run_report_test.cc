#include "npubank/tools/run/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace npubank {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

RunReport OneTurn() {
  RunReport report;
  report.device = "some NPU";
  report.models.push_back({.name = "stories",
                           .path = "models/stories",
                           .load_seconds = 0.5,
                           .compile_seconds = 0.125,
                           .weights_seconds = 0.25,
                           .weight_bytes = 1 << 20,
                           .submodels = {{.name = "prefill", .weights = 47}}});
  report.turns.push_back({.model = "stories", .prompt_tokens = 2, .ids = {1, 403}, .text = "Once"});
  return report;
}

nlohmann::json AsJson(const RunReport& report) {
  const auto json = nlohmann::json::parse(ReportAsJson(report), nullptr, false);
  EXPECT_TRUE(json.is_object());
  return json;
}

TEST(RunReportTest, OneTurnOfOneModelHasItsFiguresBesideTheOthers) {
  const nlohmann::json json = AsJson(OneTurn());
  EXPECT_EQ(json["ids"], nlohmann::json({1, 403}));
  EXPECT_EQ(json["text"], "Once");
  EXPECT_EQ(json["prompt_tokens"], 2);
  EXPECT_EQ(json["submodels"], json["models"][0]["submodels"]);
  EXPECT_EQ(json["turns"][0]["ids"], json["ids"]);
  EXPECT_EQ(json["load_seconds"], 0.5);
  EXPECT_EQ(json["compile_seconds"], 0.125);
  EXPECT_EQ(json["weights_seconds"], 0.25);
  EXPECT_FALSE(json.contains("sleep")) << "nobody slept";
}

TEST(RunReportTest, WhatAutoConvertedIsSaidWhereItDid) {
  RunReport report = OneTurn();
  EXPECT_THAT(ReportAsText(report), Not(ContainsRegex("not used as stored")));
  EXPECT_EQ(AsJson(report)["models"][0]["converted"], nlohmann::json::array());
  report.models[0].converted = {"BF16 to F16: 15 weights", "AWQ words to planes: 7 weights"};
  EXPECT_THAT(ReportAsText(report),
              ContainsRegex("not used as stored +BF16 to F16: 15 weights; AWQ words to planes: 7"));
  EXPECT_EQ(AsJson(report)["models"][0]["converted"][0], "BF16 to F16: 15 weights");
}

TEST(RunReportTest, OfSeveralTurnsNoneStandsForAll) {
  RunReport report = OneTurn();
  report.turns.push_back(report.turns[0]);
  report.turns[1].round = 1;
  const nlohmann::json json = AsJson(report);
  for (const char* key : {"ids", "text", "prompt_tokens", "submodels"})
    EXPECT_FALSE(json.contains(key)) << key;
  EXPECT_EQ(json["turns"].size(), 2u);
  EXPECT_THAT(ReportAsText(report), ContainsRegex("round +model +switch"));
}

TEST(RunReportTest, AnAuditIsOkOrSaysWhatDiffers) {
  RunReport report = OneTurn();
  report.audit = {.weight_bytes = 1 << 20, .other_bytes = 1 << 19, .counted_bytes = 3 << 19};
  EXPECT_THAT(
      ReportAsText(report),
      ContainsRegex(
          "audit +OK: weights 1.00 MiB \\+ activations 0.50 MiB, counted 1.50 MiB; imported "
          "0.00 MiB; "
          "driver cannot be asked\n"));
  EXPECT_EQ(AsJson(report)["audit"]["clean"], true);
  EXPECT_TRUE(AsJson(report)["audit"]["driver_bytes"].is_null());

  report.audit.driver_bytes = 4096;
  report.audit.discrepancies = {"tensor 'wq' has gone", "the driver holds 4096 bytes"};
  EXPECT_THAT(ReportAsText(report),
              ContainsRegex("audit +tensor 'wq' has gone; the driver holds 4096 bytes\n"));
  const nlohmann::json audit = AsJson(report)["audit"];
  EXPECT_EQ(audit["clean"], false);
  EXPECT_EQ(audit["driver_bytes"], 4096);
  EXPECT_EQ(audit["discrepancies"].size(), 2u);
}

TEST(RunReportTest, ASleepThatChangedWhatAModelSaysIsNotSaidQuietly) {
  RunReport report = OneTurn();
  EXPECT_THAT(ReportAsText(report), Not(HasSubstr("slept")));
  report.sleep = SleepFigures{.bytes_given_back = 1 << 20, .bytes_brought_back = 1 << 20};
  EXPECT_THAT(ReportAsText(report),
              ContainsRegex("slept +weights gave 1.00 MiB and 0.00 MiB of imports back"));
  EXPECT_THAT(ReportAsText(report),
              ContainsRegex("woke +1.00 MiB back in .*, and said the same\n"));
  report.sleep->same_ids = false;
  EXPECT_THAT(ReportAsText(report), HasSubstr("said SOMETHING ELSE"));
  EXPECT_EQ(AsJson(report)["sleep"]["same_ids"], false);
}

TEST(RunReportTest, ATextThatEndsInsideACharacterLeavesTheJsonValid) {
  RunReport report = OneTurn();
  report.turns[0].text = "caf\xC3";
  EXPECT_THAT(AsJson(report)["text"].get<std::string>(), HasSubstr("caf"));
}

TEST(RunReportTest, WhatWasWrongWithACacheIsInIt) {
  RunReport report = OneTurn();
  EXPECT_THAT(ReportAsText(report), Not(HasSubstr("weights cache")));
  report.cache_notices = {"'c' is not used", "no room"};
  EXPECT_THAT(ReportAsText(report), ContainsRegex("weights cache +'c' is not used; no room\n"));
}

}  // namespace
}  // namespace npubank

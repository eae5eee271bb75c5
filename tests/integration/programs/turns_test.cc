// bank-run with several models in turn on one bank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/integration/programs/programs_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

class TurnsTest : public ProgramsTest {
 protected:
  // `models` in turn on one bank.
  nlohmann::json Turns(const std::vector<std::string>& models, std::vector<std::string> more) {
    std::vector<std::string> arguments = {kBankRun,   "--device", "software", "--chunk", "4",
                                          "--report", "json",     "--tokens", "5"};
    for (const std::string& model : models) {
      arguments.push_back("--model");
      arguments.push_back(model);
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return JsonOf(RunProgram(arguments));
  }
  static CheckpointShape OtherShape() {
    CheckpointShape shape = TinyShape();
    shape.seed = 99;
    return shape;
  }
  TestModel other_{OtherShape()};
};

TEST_F(TurnsTest, EachModelSaysInItsTurnsWhatItSaysAlone) {
  const nlohmann::json json =
      Turns({model_.folder(), other_.folder()}, {"--prompt-ids", "1,2,3", "--rounds", "2"});
  ASSERT_EQ(json["turns"].size(), 4u);
  const auto alone =
      JsonOf(RunProgram(BankRun({"--prompt-ids", "1,2,3", "--tokens", "5", "--report", "json"})));
  EXPECT_EQ(json["turns"][0]["ids"], alone["ids"]);
  EXPECT_EQ(json["turns"][2]["ids"], alone["ids"]);
  EXPECT_EQ(json["turns"][1]["ids"], json["turns"][3]["ids"]);
  EXPECT_NE(json["turns"][0]["ids"], json["turns"][1]["ids"]);
  EXPECT_EQ(json["evictions"], 0);
  EXPECT_EQ(json["shared_by_recipe_bytes"], 0);
  EXPECT_EQ(json["audit"]["clean"], true) << json["audit"];
  EXPECT_EQ(json["live_source_bytes"], 0);
}

TEST_F(TurnsTest, OnABudgetForOneModelTheOtherLeavesAndSaysTheSameWhenItIsBack) {
  const nlohmann::json roomy =
      Turns({model_.folder(), other_.folder()}, {"--prompt-ids", "1,2,3", "--rounds", "2"});
  const uint64_t one = roomy["weight_bytes"].get<uint64_t>() / 2;
  // Slabs and pages round up; both models together never fit.
  const nlohmann::json tight = Turns({model_.folder(), other_.folder()},
                                     {"--prompt-ids", "1,2,3", "--rounds", "2", "--memory",
                                      "committed", "--budget", std::to_string(one * 7 / 4)});
  EXPECT_GT(tight["evictions"], 0);
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(tight["turns"][turn]["ids"], roomy["turns"][turn]["ids"]) << turn;
    EXPECT_GT(tight["turns"][turn]["bytes_brought_back"], 0) << turn;
  }
  EXPECT_EQ(tight["live_source_bytes"], 0);
}

TEST_F(TurnsTest, SeveralModelsSleepTogetherAndEachSaysTheSameWhenItIsBack) {
  const nlohmann::json json = Turns({model_.folder(), other_.folder()},
                                    {"--prompt-ids", "1,2,3", "--sleep", "--memory", "committed"});
  EXPECT_EQ(json["sleep"]["weight_bytes_left"], 0);
  EXPECT_EQ(json["sleep"]["bytes_brought_back"], json["weight_bytes"]);
  EXPECT_EQ(json["sleep"]["same_ids"], true);
  EXPECT_EQ(json["audit"]["clean"], true) << json["audit"];
}

TEST_F(TurnsTest, ACopyOfAModelCostsNothingMore) {
  const std::string copy = model_.file("copy");
  std::filesystem::create_directory(copy);
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(model_.file(name), copy + "/" + name);
  const nlohmann::json json = Turns({model_.folder(), copy}, {"--prompt-ids", "1,2,3"});
  EXPECT_EQ(json["turns"][0]["ids"], json["turns"][1]["ids"]);
  EXPECT_EQ(json["shared_by_recipe_bytes"], 0) << "other files, other recipes";
  EXPECT_GE(json["shared_by_content_bytes"], json["models"][0]["weight_bytes"]);
}

TEST_F(TurnsTest, AModelThatIsNamedTwiceIsLoadedOnce) {
  const nlohmann::json json = Turns({model_.folder(), model_.folder()}, {"--prompt-ids", "1,2,3"});
  EXPECT_EQ(json["shared_by_recipe_bytes"], json["weight_bytes"]);
  EXPECT_NE(json["models"][0]["name"], json["models"][1]["name"]);
}

TEST_F(TurnsTest, ABudgetThatOneModelDoesNotFitIsOneLineThatNamesIt) {
  ExpectOneClearLine(RunProgram(BankRun({"--rounds", "2", "--budget", "50000"})), "budget");
  ExpectOneClearLine(RunProgram(BankRun({"--rounds", "0"})), "--rounds");
}

}  // namespace
}  // namespace npubank

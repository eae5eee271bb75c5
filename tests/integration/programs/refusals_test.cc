// What bad input gets of the programs: one clear line and exit status 1, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "npubank/tests/integration/programs/programs_fixture.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

using RefusalsTest = ProgramsTest;

TEST_F(RefusalsTest, AMissingFolderIsOneLine) {
  ExpectOneClearLine(RunProgram({kBankRun, "--device", "software", "--model", "/no/such/model"}),
                     "/no/such/model");
}

TEST_F(RefusalsTest, ATruncatedSafetensorsIsOneLine) {
  const std::string bytes = ReadWholeFile(weights_);
  WriteWholeFile(weights_, bytes.substr(0, bytes.size() - 100));
  ExpectRefused("model.safetensors");
  WriteWholeFile(weights_, bytes.substr(0, 4));
  ExpectRefused("model.safetensors");
  WriteWholeFile(weights_, "");
  ExpectRefused("model.safetensors");
}

TEST_F(RefusalsTest, AHeaderLengthBeyondTheFileIsOneLine) {
  std::string bytes = ReadWholeFile(weights_);
  bytes[7] = '\x7f';
  WriteWholeFile(weights_, bytes);
  ExpectRefused("model.safetensors");
}

TEST_F(RefusalsTest, OverlappingOffsetsAreOneLine) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    json["model.layers.1.self_attn.q_proj.weight"]["data_offsets"] =
        json["model.layers.0.self_attn.q_proj.weight"]["data_offsets"];
    return json.dump();
  });
  ExpectRefused("q_proj");
}

TEST_F(RefusalsTest, OutOfRangeOffsetsAreOneLine) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    auto& offsets = json["model.norm.weight"]["data_offsets"];
    offsets = {offsets[0].get<uint64_t>() + (1ull << 40),
               offsets[1].get<uint64_t>() + (1ull << 40)};
    return json.dump();
  });
  ExpectRefused("model.norm.weight");
}

TEST_F(RefusalsTest, AnUnknownDtypeIsOneLine) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    json["model.norm.weight"]["dtype"] = "X17";
    return json.dump();
  });
  ExpectRefused("X17");
}

TEST_F(RefusalsTest, AConfigWithoutANeededKeyIsOneLineThatNamesIt) {
  const std::string config = ReadWholeFile(config_);
  WriteWholeFile(config_, Replace(config, "\"hidden_size\"", "\"_hidden_size\""));
  ExpectRefused("'hidden_size' is missing");
  WriteWholeFile(config_, Replace(config, "\"hidden_size\"", "\"hidden_sise\""));
  ExpectRefused("'hidden_sise' is not known");
  WriteWholeFile(config_, "{");
  ExpectRefused("config.json");
  std::filesystem::remove(config_);
  ExpectRefused("config.json");
}

TEST_F(RefusalsTest, ATensorOfTheWrongShapeIsOneLineThatNamesIt) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    auto& shape = json["model.layers.2.mlp.down_proj.weight"]["shape"];
    std::swap(shape[0], shape[1]);
    return json.dump();
  });
  ExpectRefused("model.layers.2.mlp.down_proj.weight");
}

TEST_F(RefusalsTest, APromptLongerThanTheContextIsOneLine) {
  std::string ids = "1";
  for (int i = 0; i < 64; ++i) ids += ",2";
  ExpectOneClearLine(RunProgram(BankRun({"--prompt-ids", ids})), "context");
}

TEST_F(RefusalsTest, BadFlagsAreOneLine) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& what) {
    ExpectOneClearLine(RunProgram(BankRun(more)), what);
  };
  refused({"--prompt-ids", "1,x"}, "'x'");
  refused({"--weights", "f12"}, "'f12' is not one of auto");
  refused({"--prompt", "hello"}, "tokenizer.json");
  refused({"--tokens", "-5"}, "--tokens '-5'");
  refused({"--workers", "-2"}, "--workers '-2'");
  refused({"--chunk", "0"}, "--chunk '0'");
  refused({"stray"}, "'stray'");
  refused({"--prompt", "hello", "--prompt-ids", "1,2"}, "--prompt and --prompt-ids");
  ExpectOneClearLine(RunProgram({kBankRun}), "--model");
  ExpectOneClearLine(RunProgram({kMakeCheckpoint, "--out", model_.file("new"), "stray"}),
                     "'stray'");
  EXPECT_FALSE(std::filesystem::exists(model_.file("new")));
}

TEST_F(RefusalsTest, AnUnknownFlagIsSaidToBeOne) {
  const ProgramResult result = RunProgram({kBankRun, "--modle", model_.folder()});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.error, HasSubstr("modle"));
  EXPECT_EQ(result.out, "");
}

TEST_F(RefusalsTest, ACorruptSnapshotIsOneLine) {
  const std::string file = model_.file("run.bank");
  ASSERT_EQ(RunProgram(BankRun({"--tokens", "1", "--snapshot", file})).exit_status, 0);
  const std::string whole = ReadWholeFile(file);
  for (size_t keep : {size_t{0}, size_t{3}, whole.size() / 2, whole.size() - 1}) {
    WriteWholeFile(file, whole.substr(0, keep));
    ExpectOneClearLine(RunProgram({kBankInspect, file}), "run.bank");
  }
  ExpectOneClearLine(RunProgram({kBankInspect, model_.file("none.bank")}), "none.bank");
}

}  // namespace
}  // namespace npubank

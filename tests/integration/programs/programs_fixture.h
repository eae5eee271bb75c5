// ProgramsTest: a small model, bank-run over it, and what a refusal looks like: one clear line and exit
// status 1, never a crash.
#ifndef NPUBANK_TESTS_INTEGRATION_PROGRAMS_PROGRAMS_FIXTURE_H_
#define NPUBANK_TESTS_INTEGRATION_PROGRAMS_PROGRAMS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {

inline const std::string kBankRun = NPUBANK_BIN "/bank-run";
inline const std::string kBankInspect = NPUBANK_BIN "/bank-inspect";
inline const std::string kMakeCheckpoint = NPUBANK_BIN "/make-checkpoint";

class ProgramsTest : public ::testing::Test {
 protected:
  std::vector<std::string> BankRun(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {kBankRun,        "--device", "software",
                                          "--model",       model_.folder(), "--chunk", "4"};
    // Something to transform, where the test does not say otherwise.
    if (std::find(more.begin(), more.end(), "--weights") == more.end())
      arguments.insert(arguments.end(), {"--weights", "f16"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // One line on standard error that says `what`, nothing on standard output, status 1.
  static void ExpectOneClearLine(const ProgramResult& result, const std::string& what) {
    EXPECT_EQ(result.exit_status, 1) << result.error;
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_THAT(result.error, ::testing::HasSubstr(what));
    EXPECT_EQ(result.out, "");
  }
  static nlohmann::json JsonOf(const ProgramResult& run) {
    EXPECT_EQ(run.exit_status, 0) << run.error;
    nlohmann::json json = nlohmann::json::parse(run.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << run.out;
    return json.is_discarded() ? nlohmann::json::object() : json;
  }
  void ExpectRefused(const std::string& what) {
    ExpectOneClearLine(RunProgram(BankRun({"--tokens", "1"})), what);
  }

  // Rewrites the JSON header of the model's safetensors; its length field follows.
  void RewriteHeader(const std::function<std::string(std::string)>& change) {
    const std::string bytes = ReadWholeFile(weights_);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const std::string header = change(bytes.substr(8, length));
    length = header.size();
    std::string rewritten(reinterpret_cast<const char*>(&length), sizeof(length));
    WriteWholeFile(weights_, rewritten + header + bytes.substr(bytes.size() - DataBytes(bytes)));
  }
  static size_t DataBytes(const std::string& bytes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return bytes.size() - 8 - length;
  }
  static std::string Replace(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }

  TestModel model_;
  std::string weights_ = model_.file("model.safetensors");
  std::string config_ = model_.file("config.json");
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_PROGRAMS_PROGRAMS_FIXTURE_H_

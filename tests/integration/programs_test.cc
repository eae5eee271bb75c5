// bank-run and bank-inspect as a user meets them: what they print, and what bad input gets: one
// clear line and exit status 1, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kBankRun = NPUBANK_BIN "/bank-run";
const std::string kBankInspect = NPUBANK_BIN "/bank-inspect";
const std::string kMakeCheckpoint = NPUBANK_BIN "/make-checkpoint";

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
    EXPECT_THAT(result.error, HasSubstr(what));
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

TEST_F(ProgramsTest, ASecondRunWithACacheTransformsNothingAndSaysTheSame) {
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

TEST_F(ProgramsTest, TheDemoModelStartsAgainFromTheCacheWithoutATransformationAndSaysTheSame) {
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

TEST_F(ProgramsTest, ADamagedCacheIsReportedAndNotUsed) {
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

TEST_F(ProgramsTest, AMissingFolderIsOneLine) {
  ExpectOneClearLine(RunProgram({kBankRun, "--device", "software", "--model", "/no/such/model"}),
                     "/no/such/model");
}

TEST_F(ProgramsTest, ATruncatedSafetensorsIsOneLine) {
  const std::string bytes = ReadWholeFile(weights_);
  WriteWholeFile(weights_, bytes.substr(0, bytes.size() - 100));
  ExpectRefused("model.safetensors");
  WriteWholeFile(weights_, bytes.substr(0, 4));
  ExpectRefused("model.safetensors");
  WriteWholeFile(weights_, "");
  ExpectRefused("model.safetensors");
}

TEST_F(ProgramsTest, AHeaderLengthBeyondTheFileIsOneLine) {
  std::string bytes = ReadWholeFile(weights_);
  bytes[7] = '\x7f';
  WriteWholeFile(weights_, bytes);
  ExpectRefused("model.safetensors");
}

TEST_F(ProgramsTest, OverlappingOffsetsAreOneLine) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    json["model.layers.1.self_attn.q_proj.weight"]["data_offsets"] =
        json["model.layers.0.self_attn.q_proj.weight"]["data_offsets"];
    return json.dump();
  });
  ExpectRefused("q_proj");
}

TEST_F(ProgramsTest, OutOfRangeOffsetsAreOneLine) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    auto& offsets = json["model.norm.weight"]["data_offsets"];
    offsets = {offsets[0].get<uint64_t>() + (1ull << 40),
               offsets[1].get<uint64_t>() + (1ull << 40)};
    return json.dump();
  });
  ExpectRefused("model.norm.weight");
}

TEST_F(ProgramsTest, AnUnknownDtypeIsOneLine) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    json["model.norm.weight"]["dtype"] = "X17";
    return json.dump();
  });
  ExpectRefused("X17");
}

TEST_F(ProgramsTest, ACacheStaysWithinItsLimit) {
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

TEST_F(ProgramsTest, AFullDiskCostsNoMoreThanTheCache) {
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

TEST_F(ProgramsTest, AConfigWithoutANeededKeyIsOneLineThatNamesIt) {
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

TEST_F(ProgramsTest, ATensorOfTheWrongShapeIsOneLineThatNamesIt) {
  RewriteHeader([](std::string header) {
    auto json = nlohmann::json::parse(header);
    auto& shape = json["model.layers.2.mlp.down_proj.weight"]["shape"];
    std::swap(shape[0], shape[1]);
    return json.dump();
  });
  ExpectRefused("model.layers.2.mlp.down_proj.weight");
}

TEST_F(ProgramsTest, APromptLongerThanTheContextIsOneLine) {
  std::string ids = "1";
  for (int i = 0; i < 64; ++i) ids += ",2";
  ExpectOneClearLine(RunProgram(BankRun({"--prompt-ids", ids})), "context");
}

TEST_F(ProgramsTest, BadFlagsAreOneLine) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& what) {
    ExpectOneClearLine(RunProgram(BankRun(more)), what);
  };
  refused({"--prompt-ids", "1,x"}, "'x'");
  refused({"--weights", "f12"}, "'f12' is not one of auto");
  refused({"--prompt", "hello"}, "tokens.json");
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

TEST_F(ProgramsTest, AnUnknownFlagIsSaidToBeOne) {
  const ProgramResult result = RunProgram({kBankRun, "--modle", model_.folder()});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.error, HasSubstr("modle"));
  EXPECT_EQ(result.out, "");
}

TEST_F(ProgramsTest, HelpShowsEveryOptionInItsGroupWithExamples) {
  const std::map<std::string, std::vector<std::string>> programs = {
      {"bank-run", {"--model PATH", "--prompt-ids IDS", "--save-blobs DIR", "(default: auto)"}},
      {"bank-inspect", {"--sort KEY", "--svg FILE", "bank-inspect leaks", "bank-inspect diff"}},
      {"make-checkpoint", {"--kv-heads N", "--dtype TYPE", "(default: 32000)"}},
      {"load-benchmark", {"--small"}},
      {"memory-benchmark", {"trace.txt"}}};
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

TEST_F(ProgramsTest, ACacheThatCannotBeWrittenIsSaidOnceAndCostsOnlyTheCache) {
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

TEST_F(ProgramsTest, ACorruptSnapshotIsOneLine) {
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

// bank-run on a model as it is downloaded, and as a person uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kBankRun[] = NPUBANK_BIN "/bank-run";

// The trained model in a folder of its own, with files of the test's beside its weights.
class AsDownloadedTest : public ::testing::Test {
 protected:
  AsDownloadedTest() {
    for (const char* file : {"config.json", "model.safetensors"})
      fs::create_symlink(StoriesFolder() + "/" + file, folder_.File(file));
  }

  std::vector<std::string> BankRun(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {kBankRun, "--device", "software", "--model",
                                          folder_.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static Json Report(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--report", "json"});
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.error;
    Json json = Json::parse(result.out, nullptr, false);
    return json.is_discarded() ? Json::object() : json;
  }
  std::vector<int> Ids(const std::vector<std::string>& more) const {
    return Report(BankRun(more)).value("ids", std::vector<int>());
  }

  const TemporaryFolder folder_;
};

// tokens.json as Hugging Face's converter would write it: for each piece, by its score, every pair that makes it.
std::string StoriesTokenizerJson() {
  const Json pieces = Json::parse(ReadWholeFile(StoriesFolder() + "/tokens.json"));
  Json vocabulary = Json::object();
  std::vector<std::pair<double, std::string>> by_score;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string text =
        absl::StrReplaceAll(pieces[id]["piece"].get<std::string>(), {{" ", "\u2581"}});
    if (!vocabulary.contains(text)) vocabulary[text] = id;
    if (id >= 259) by_score.emplace_back(-pieces[id]["score"].get<double>(), text);
  }
  std::stable_sort(by_score.begin(), by_score.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Json merges = Json::array();
  for (const auto& [score, text] : by_score)
    for (size_t cut = 1; cut < text.size(); ++cut)
      if (vocabulary.contains(text.substr(0, cut)) && vocabulary.contains(text.substr(cut)))
        merges.push_back({text.substr(0, cut), text.substr(cut)});
  const Json special = {{"id", 1}, {"content", "<s>"}, {"special", true}};
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const Json back = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return Json({{"version", "1.0"},
               {"added_tokens", {special}},
               {"normalizer",
                {{"type", "Sequence"},
                 {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}, replace}}}},
               {"post_processor",
                {{"type", "TemplateProcessing"},
                 {"single",
                  {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                   {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                 {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}}}}}}},
               {"decoder",
                {{"type", "Sequence"},
                 {"decoders", {back, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}}},
               {"model",
                {{"type", "BPE"},
                 {"unk_token", "<unk>"},
                 {"byte_fallback", true},
                 {"vocab", vocabulary},
                 {"merges", merges}}}})
      .dump();
}

TEST_F(AsDownloadedTest, AFolderWithItsTokenizerJsonContinuesEveryPrompt) {
  folder_.Write("tokenizer.json", StoriesTokenizerJson());
  std::ifstream file(StoriesFolder() + "/expected/prompts.json");
  const Json cases = Json::parse(file)["cases"];
  ASSERT_EQ(cases.size(), 3u);
  for (const Json& each : cases) {
    const std::vector<int> ids = each["ids"];
    const int tokens = static_cast<int>(ids.size()) - each["n_prompt"].get<int>();
    const Json report =
        Report(BankRun({"--prompt", each["prompt"], "--tokens", absl::StrCat(tokens)}));
    EXPECT_EQ(report["ids"], ids);
    EXPECT_EQ(report["text"], each["text"]);
  }
}

TEST_F(AsDownloadedTest, ATokenizerThatIsNotKnownIsRefusedByNameWhereTextIsAsked) {
  folder_.Write("tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})");
  const ProgramResult text = RunProgram(BankRun({"--prompt", "Once"}));
  EXPECT_EQ(text.exit_status, 1);
  EXPECT_THAT(text.error, HasSubstr("'Unigram'"));
  EXPECT_EQ(Ids({"--prompt-ids", "1,403", "--tokens", "2"}).size(), 4u) << "ids need no tokenizer";
}

TEST_F(AsDownloadedTest, GenerationEndsAtTheTokensOfItsConfig) {
  const std::vector<int> free = Ids({"--prompt-ids", "1,403,407", "--tokens", "12"});
  ASSERT_EQ(free.size(), 15u);
  const int end = free[9];
  const auto first = std::find(free.begin() + 3, free.end(), end);
  for (const std::string& eos : {absl::StrCat(end), absl::StrCat("[500, ", end, "]")}) {
    folder_.Write("generation_config.json", absl::StrCat("{\"eos_token_id\": ", eos, "}"));
    EXPECT_EQ(Ids({"--prompt-ids", "1,403,407", "--tokens", "12"}),
              std::vector<int>(free.begin(), first))
        << eos;
  }
  folder_.Write("generation_config.json", R"({"eos_token_id": "end"})");
  EXPECT_THAT(RunProgram(BankRun({"--prompt-ids", "1"})).error, HasSubstr("eos_token_id"));
}

TEST_F(AsDownloadedTest, TheSameSeedDrawsTheSameAndATightTopPTheLikeliest) {
  const auto drawn = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--prompt-ids", "1,403,407", "--tokens", "40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Ids(arguments);
  };
  const std::vector<int> seven = drawn({"--temperature", "1.5", "--seed", "7"});
  EXPECT_EQ(drawn({"--temperature", "1.5", "--seed", "7"}), seven);
  EXPECT_NE(drawn({"--temperature", "1.5", "--seed", "8"}), seven);
  EXPECT_NE(drawn({}), seven);
  EXPECT_EQ(drawn({"--temperature", "1.5", "--top-p", "0.000001"}), drawn({}));
  for (const auto& [flag, value] :
       {std::pair{"--temperature", "-1"}, {"--top-p", "0"}, {"--top-p", "1.5"}})
    EXPECT_THAT(RunProgram(BankRun({"--prompt-ids", "1", flag, value})).error, HasSubstr(flag));
}

TEST_F(AsDownloadedTest, APromptComesFromAFileOrFromStandardInput) {
  folder_.Write("tokenizer.json", StoriesTokenizerJson());
  const std::vector<int> expected = Ids({"--prompt", "Once upon\na time", "--tokens", "3"});
  const std::string file = folder_.Write("prompt.txt", "Once upon\na time\n");
  EXPECT_EQ(Ids({"--prompt-file", file, "--tokens", "3"}), expected);
  std::string command = "exec \"$@\" < " + file;
  std::vector<std::string> piped = {"/bin/sh", "-c", command, "sh"};
  for (const std::string& each : BankRun({"--prompt-file", "-", "--tokens", "3"}))
    piped.push_back(each);
  EXPECT_EQ(Report(piped)["ids"], expected);
  EXPECT_THAT(RunProgram(BankRun({"--prompt", "a", "--prompt-file", file})).error,
              HasSubstr("one of the two"));
  EXPECT_THAT(RunProgram(BankRun({"--prompt-file", folder_.File("none")})).error,
              HasSubstr("none"));
}

TEST_F(AsDownloadedTest, ARepositoryInTheCacheIsFoundByItsName) {
  const TemporaryFolder home;
  const fs::path repository = fs::path(home.path()) / "hub" / "models--someone--stories";
  fs::create_directories(repository / "snapshots");
  fs::create_directory_symlink(folder_.path(), repository / "snapshots" / "abc");
  const auto run = [&](const std::string& name) {
    return RunProgram({"/usr/bin/env", "HF_HOME=" + home.path(), "HF_HUB_CACHE=", kBankRun,
                       "--device", "software", "--model", name, "--prompt-ids", "1,2", "--tokens",
                       "2", "--ids"});
  };
  EXPECT_EQ(run("someone/stories").exit_status, 0) << run("someone/stories").error;
  EXPECT_THAT(run("someone/else").error, HasSubstr("models--someone--else"));
  fs::create_directory(repository / "snapshots" / "def");
  EXPECT_THAT(run("someone/stories").error, HasSubstr("2 snapshots"));
  fs::create_directory(repository / "refs");
  WriteWholeFile((repository / "refs" / "main").string(), "abc");
  EXPECT_EQ(run("someone/stories").exit_status, 0) << run("someone/stories").error;
  EXPECT_EQ(run("../stories").exit_status, 1);
}

TEST_F(AsDownloadedTest, CtrlCEndsWithTheReport) {
  folder_.Write("tokenizer.json", StoriesTokenizerJson());
  // Rounds without end; interrupted as soon as it has begun to speak.
  const std::string script = R"(out=$1; shift; "$@" > "$out" & pid=$!
    until grep -q Once "$out"; do kill -0 $pid || exit 1; sleep 0.02; done
    kill -INT $pid; wait $pid)";
  const std::string out = folder_.File("out");
  std::vector<std::string> command = {"/bin/bash", "-c", script, "sh", out};
  for (const std::string& each : BankRun({"--prompt", "Once", "--rounds", "1000000"}))
    command.push_back(each);
  const ProgramResult result = RunProgram(command);
  EXPECT_EQ(result.exit_status, 130) << result.error;
  EXPECT_THAT(ReadWholeFile(out), HasSubstr("audit"));
}

}  // namespace
}  // namespace npubank

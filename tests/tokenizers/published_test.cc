// Published vocabularies against independent implementations, over what tests/tokenizers/compare has written.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tools/tokenizers/json/json_tokenizer.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {
namespace {

struct Case {
  std::string text;
  std::vector<int32_t> ids;
  std::string decoded;
};

std::vector<Case> ReadCases(const std::filesystem::path& path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    cases.push_back({json["text"], json["ids"], json["decoded"]});
  }
  return cases;
}

TEST(PublishedTokenizersTest, EveryStringGivesTheIdsAndTheTextOfTheOriginals) {
  const char* folder = std::getenv("NPUBANK_PUBLISHED_TOKENIZERS");
  if (folder == nullptr)
    GTEST_SKIP() << "no published vocabularies: run tests/tokenizers/compare, which fetches them";
  int vocabularies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++vocabularies;
    SCOPED_TRACE(entry.path().string());
    const auto tokenizer = ReadTokenizerJson(entry.path() / "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const std::vector<Case> cases = ReadCases(entry.path() / "cases.jsonl");
    ASSERT_GT(cases.size(), 1000u);
    int differ = 0;
    for (const Case& each : cases) {
      const auto ids = (*tokenizer)->Encode(each.text);
      ASSERT_TRUE(ids.ok()) << ids.status();
      const bool same = *ids == each.ids;
      const bool same_text = (*tokenizer)->Decode(each.ids) == each.decoded;
      if (same && same_text) continue;
      ++differ;
      ADD_FAILURE() << (same ? "" : "ids differ, ") << (same_text ? "" : "text differs, ")
                    << nlohmann::json(each.text);
      ASSERT_LT(differ, 20) << "and so on";
    }
    std::printf("%s: %zu strings\n", entry.path().c_str(), cases.size());
  }
  EXPECT_GE(vocabularies, 3);
}

}  // namespace
}  // namespace npubank

#include "npubank/tools/tokenizers/vocabulary.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

TEST(VocabularyTest, PiecesKeepTheirOrder) {
  const auto vocabulary = ParseVocabulary(
      R"([{"piece": "<unk>", "score": 0}, {"piece": " the", "score": -6.5, "more": []}])",
      "t.json");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  ASSERT_EQ(vocabulary->pieces.size(), 2u);
  EXPECT_EQ(vocabulary->pieces[1].text, " the");
  EXPECT_EQ(vocabulary->pieces[1].score, -6.5f);
}

TEST(VocabularyTest, BadEntriesAreNamedByTheirId) {
  for (const char* bad :
       {"5", "{}", "{\"piece\":5,\"score\":0}", "{\"piece\":\"a\"}",
        "{\"piece\":\"a\",\"score\":\"1\"}", "{\"piece\":\"a\",\"score\":1e300}", "null"}) {
    const auto result =
        ParseVocabulary(std::string("[{\"piece\":\"a\",\"score\":0},") + bad + "]", "t.json");
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("t.json: piece 1"));
  }
  EXPECT_FALSE(ParseVocabulary("{}", "t.json").ok());
  EXPECT_FALSE(ParseVocabulary("[", "t.json").ok());
}

TEST(VocabularyTest, MissingFileIsNotFound) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadVocabulary(folder.path() + "/tokens.json").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace npubank

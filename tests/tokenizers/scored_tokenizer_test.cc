#include "npubank/tools/tokenizers/scored_tokenizer.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3..258 bytes, then `pieces`, the earlier the better.
Vocabulary MakeVocabulary(const std::vector<std::string>& pieces) {
  Vocabulary vocabulary;
  vocabulary.pieces = {{"<unk>", 0}, {"<s>", 0}, {"</s>", 0}};
  for (int i = 0; i < 256; ++i) vocabulary.pieces.push_back({absl::StrFormat("<0x%02X>", i), 0});
  float score = 0;
  for (const std::string& piece : pieces) vocabulary.pieces.push_back({piece, score -= 1});
  vocabulary.bos = 1;
  return vocabulary;
}

// One that is known to be good, as a value that tests can call.
class Made {
 public:
  explicit Made(Vocabulary vocabulary) {
    auto made = ScoredTokenizer::Create(std::move(vocabulary));
    EXPECT_TRUE(made.ok()) << made.status();
    tokenizer_ = *std::move(made);
  }
  std::vector<int32_t> Encode(absl::string_view text,
                              SpecialText special = SpecialText::kTokens) const {
    auto ids = tokenizer_->Encode(text, special);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return *std::move(ids);
  }
  std::string Decode(const std::vector<int32_t>& ids) const { return tokenizer_->Decode(ids); }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

Made Make(const std::vector<std::string>& pieces) { return Made(MakeVocabulary(pieces)); }

TEST(ScoredTokenizerTest, EmptyTextIsBosAlone) {
  EXPECT_THAT(Make({" "}).Encode(""), ElementsAre(1));
}

TEST(ScoredTokenizerTest, ASpaceComesFirst) {
  const Made tokenizer = Make({" ", "a"});
  EXPECT_THAT(tokenizer.Encode("a"), ElementsAre(1, 259, 260));
  EXPECT_EQ(tokenizer.Decode({1, 259, 260}), "a");
  EXPECT_EQ(tokenizer.Decode({259, 260}), "a");
  EXPECT_EQ(tokenizer.Decode({260, 259, 260}), "a a");
}

TEST(ScoredTokenizerTest, WhatTheVocabularySaysOfBosSpaceAndEosIsObeyed) {
  const auto make = [](bool add_bos, bool add_space_prefix, std::optional<int32_t> eos) {
    Vocabulary vocabulary = MakeVocabulary({" ", "a"});
    if (!add_bos) vocabulary.bos.reset();
    vocabulary.add_space_prefix = add_space_prefix;
    vocabulary.eos = eos;
    return Made(std::move(vocabulary));
  };
  EXPECT_THAT(make(false, true, {}).Encode("a"), ElementsAre(259, 260));
  EXPECT_THAT(make(true, false, {}).Encode("a"), ElementsAre(1, 260));
  EXPECT_THAT(make(false, false, {}).Encode("a"), ElementsAre(260));
  EXPECT_THAT(make(true, true, 2).Encode("a"), ElementsAre(1, 259, 260, 2));
  EXPECT_THAT(make(true, true, 2).Encode(""), ElementsAre(1, 2));
  EXPECT_THAT(make(false, false, {}).Encode(""), ElementsAre());
}

TEST(ScoredTokenizerTest, ATextComesBackWithTheSpacesItHad) {
  for (const bool add_bos : {true, false}) {
    for (const bool add_space_prefix : {true, false}) {
      Vocabulary vocabulary = MakeVocabulary({" ", "a", " a"});
      if (!add_bos) vocabulary.bos.reset();
      vocabulary.add_space_prefix = add_space_prefix;
      const Made tokenizer(std::move(vocabulary));
      for (const char* text : {"a", " a", "a a"}) {
        EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text) << add_bos << add_space_prefix;
      }
    }
  }
}

TEST(ScoredTokenizerTest, TheBestScoreMergesFirst) {
  // "ab" is better than "bc", so abc is ab + c; with the scores the other way round it is a + bc.
  EXPECT_THAT(Make({" ", "a", "b", "c", "ab", "bc"}).Encode("abc"), ElementsAre(1, 259, 263, 262));
  EXPECT_THAT(Make({" ", "a", "b", "c", "bc", "ab"}).Encode("abc"), ElementsAre(1, 259, 260, 263));
}

TEST(ScoredTokenizerTest, OfEqualScoresTheLeftmostMergesFirst) {
  EXPECT_THAT(Make({" ", "a", "aa"}).Encode("aaa"), ElementsAre(1, 259, 261, 260));
}

TEST(ScoredTokenizerTest, MergesBuildOnMerges) {
  EXPECT_THAT(Make({" ", "a", "b", "ab", "abab", " abab"}).Encode("abab"), ElementsAre(1, 264));
}

TEST(ScoredTokenizerTest, CharactersWithoutAPieceBecomeTheirBytes) {
  const Made tokenizer = Make({" ", "a", "é"});
  EXPECT_THAT(tokenizer.Encode("é"), ElementsAre(1, 259, 261));
  EXPECT_THAT(tokenizer.Encode("ü"), ElementsAre(1, 259, 3 + 0xC3, 3 + 0xBC));
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode("aüé")), "aüé");
}

TEST(ScoredTokenizerTest, ControlPiecesAreTypedOnlyWhereSpecialTextIsTokens) {
  Vocabulary vocabulary = MakeVocabulary({" ", "<", "s", ">", "<s", "<s>", "\u2581x"});
  vocabulary.pieces[264].kind = Vocabulary::Kind::kControl;
  vocabulary.pieces[265].kind = Vocabulary::Kind::kUserDefined;
  const Made tokenizer(vocabulary);
  EXPECT_THAT(tokenizer.Encode("<s>", SpecialText::kPlain), ElementsAre(1, 259, 263, 262));
  EXPECT_THAT(tokenizer.Encode("<s>s<s>"), ElementsAre(1, 264, 259, 261, 264));
  EXPECT_THAT(tokenizer.Encode("s\u2581x", SpecialText::kPlain), ElementsAre(1, 259, 261, 265));
  EXPECT_EQ(tokenizer.Decode({264, 260}), "<");
}

TEST(ScoredTokenizerTest, WithoutBytePiecesUnknownTextIsTheUnknownPiece) {
  Vocabulary vocabulary;
  vocabulary.pieces = {{"<s>", 0}, {"<unk>", 0, Vocabulary::Kind::kUnknown}, {" ", 0}};
  vocabulary.bos = 0;
  EXPECT_THAT(Made(vocabulary).Encode("x"), ElementsAre(0, 2, 1));
}

TEST(ScoredTokenizerTest, IdsOutsideOfTheVocabularyDecodeToNothing) {
  EXPECT_EQ(Make({"a"}).Decode({-5, 259, 1'000'000}), "a");
}

TEST(ScoredTokenizerTest, AnImpossibleBosIsRefused) {
  EXPECT_FALSE(ScoredTokenizer::Create(Vocabulary()).ok());
  for (const int32_t bos : {259, -1}) {
    Vocabulary vocabulary = MakeVocabulary({});
    vocabulary.bos = bos;
    EXPECT_FALSE(ScoredTokenizer::Create(vocabulary).ok());
  }
}

TEST(ScoredTokenizerTest, AnyTextSurvivesTheRoundTripAndOtherBytesAreReplaced) {
  std::mt19937 random(PrintedSeed());
  const Made tokenizer = Make({" ", "a", "b", "ab", "é", "aé"});
  const std::vector<std::string> parts = {
      "a", "b", " ", "é", "\xC3", "\xA9", "\xFF", "\xF0\x9F", std::string(1, '\0'), "日"};
  for (int round = 0; round < Repetitions(20'000); ++round) {
    std::string text;
    for (size_t i = random() % 12; i-- > 0;) text += parts[random() % parts.size()];
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), ValidUtf8(text));
  }
}

// What the heap must agree with: scan all pairs, merge the best one, repeat.
std::vector<std::string> MergeByScanning(const Vocabulary& vocabulary,
                                         std::vector<std::string> parts) {
  for (;;) {
    size_t best = parts.size();
    float best_score = -1e10f;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (const Vocabulary::Piece& piece : vocabulary.pieces) {
        if (piece.text == parts[i] + parts[i + 1] && piece.score > best_score) {
          best = i;
          best_score = piece.score;
        }
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(ScoredTokenizerTest, TheHeapMergesAsAScanWould) {
  std::mt19937 random(PrintedSeed());
  for (int round = 0; round < Repetitions(2000); ++round) {
    std::vector<std::string> pieces = {" ", "a", "b", "c"};
    for (int i = 0; i < 12; ++i) {
      std::string piece;
      for (size_t n = 2 + random() % 3; n-- > 0;) piece += " abc"[random() % 4];
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
    Vocabulary vocabulary = MakeVocabulary(pieces);
    for (size_t i = 263; i < vocabulary.pieces.size(); ++i) {
      vocabulary.pieces[i].score = -static_cast<float>(random() % 4);  // many ties
    }
    const Made tokenizer(vocabulary);
    std::string text;
    for (size_t n = 1 + random() % 20; n-- > 0;) text += "abc "[random() % 4];
    std::vector<std::string> characters = {" "};
    for (const char c : text) characters.emplace_back(1, c);
    std::vector<std::string> merged;
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    for (size_t i = 1; i < ids.size(); ++i) merged.push_back(vocabulary.pieces[ids[i]].text);
    ASSERT_EQ(merged, MergeByScanning(vocabulary, characters)) << "text \"" << text << "\"";
  }
}

TEST(ScoredTokenizerTest, LongTextsAreNotQuadratic) {
  std::string text;
  while (text.size() < 1'000'000) text += "abab c";
  const Made tokenizer = Make({" ", "a", "b", "c", "ab", "abab", " c"});
  const auto start = std::chrono::steady_clock::now();
  const std::vector<int32_t> ids = tokenizer.Encode(text);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(tokenizer.Decode(ids), text);
  EXPECT_LT(elapsed.count(), 30) << "a quadratic merge would take hours";
}

TEST(ScoredTokenizerTest, TheStoriesModelsPromptsAndTextsAgreeWithLlama2c) {
  auto vocabulary = ReadVocabulary(StoriesFolder() + "/tokens.json");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  vocabulary->bos = 1;
  const Made tokenizer(*std::move(vocabulary));
  std::ifstream file(StoriesFolder() + "/expected/prompts.json");
  const nlohmann::json expected = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(expected.is_object());
  ASSERT_FALSE(expected["cases"].empty());
  for (const auto& entry : expected["cases"]) {
    const auto prompt = entry["prompt"].get<std::string>();
    const auto ids = entry["ids"].get<std::vector<int32_t>>();
    const auto count = entry["n_prompt"].get<size_t>();
    EXPECT_EQ(tokenizer.Encode(prompt), std::vector<int32_t>(ids.begin(), ids.begin() + count));
    EXPECT_EQ(tokenizer.Decode(ids), entry["text"].get<std::string>());
  }
}

}  // namespace
}  // namespace npubank

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tools/tokenizers/open_tokenizer.h"
#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_library.h"
#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

// Made by spm_train; good_bpe has pieces for bytes, good_unigram_rules rules that change text.
std::string Model(const std::string& name) {
  return ReadWholeFile(NPUBANK_SOURCE_DIR "/tests/fuzz/corpus/tokenizer_model_fuzzer/" + name);
}

TEST(SentencePieceTest, IdsAndTextAreTheLibrarys) {
  std::mt19937_64 random(PrintedSeed());
  const std::vector<std::string> parts = {"the ", "quick",      "fox", " ",      "  ",
                                          "12",   "\u00E9",     "A",   "\uFF21", "\u2581",
                                          "\n",   "\U0001F600", "<s>"};
  for (const char* name : {"good_bpe", "good_unigram_rules"}) {
    SentencePieceLibrary library;
    ASSERT_EQ(library.Load(Model(name)), "");
    const auto tokenizer = ParseSentencePiece(Model(name), name, {.bos = false});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (int round = 0; round < Repetitions(5000); ++round) {
      std::string text;
      for (size_t n = random() % 12; n > 0; --n) text += parts[random() % parts.size()];
      std::vector<int> expected;
      std::string decoded;
      ASSERT_EQ(library.Encode(text, expected), "");
      ASSERT_EQ(library.Decode(expected, decoded), "");
      const auto ids = (*tokenizer)->Encode(text);
      ASSERT_TRUE(ids.ok()) << ids.status();
      ASSERT_EQ(*ids, expected) << name << " '" << text << "'";
      ASSERT_EQ((*tokenizer)->Decode(*ids), decoded) << name << " '" << text << "'";
    }
  }
}

TEST(SentencePieceTest, BosAndEosComeAsTheConfigSays) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.model", Model("good_bpe"));
  const auto bare = ParseSentencePiece(Model("good_bpe"), "m", {.bos = false});
  const std::vector<int32_t> text = *(*bare)->Encode("the fox");
  std::vector<int32_t> with_bos = {1};
  with_bos.insert(with_bos.end(), text.begin(), text.end());
  EXPECT_EQ(*(*OpenTokenizer(folder.path(), 0))->Encode("the fox"), with_bos);
  folder.Write("tokenizer_config.json",
               R"({"add_bos_token": false, "add_eos_token": true, "other": {}})");
  std::vector<int32_t> with_eos = text;
  with_eos.push_back(2);
  EXPECT_EQ(*(*OpenTokenizer(folder.path(), 0))->Encode("the fox"), with_eos);
  folder.Write("tokenizer_config.json", R"({"add_bos_token": "yes"})");
  EXPECT_THAT(std::string(OpenTokenizer(folder.path(), 0).status().message()),
              HasSubstr("add_bos_token"));
}

TEST(SentencePieceTest, BrokenFilesAreRefusedBeforeTheLibraryReadsThem) {
  for (const auto& [name, what] : {std::pair{"empty", "no pieces"},
                                   {"truncated", "not a whole"},
                                   {"table_length", "cut off"},
                                   {"table_leads_out", "leads out of itself"},
                                   {"values_beyond_texts", "out of its texts"},
                                   {"texts_without_end", "without an end"}}) {
    const absl::Status status = ParseSentencePiece(Model(name), "t.model", {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("t.model"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what)) << name;
  }
}

TEST(SentencePieceTest, EveryCutAndEveryChangedByteIsRefusedOrHarmless) {
  const std::string whole = Model("good_unigram_rules");
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string changed = whole;
    changed[i] = static_cast<char>(~changed[i]);
    for (const std::string& bytes : {whole.substr(0, i), changed}) {
      const auto tokenizer = ParseSentencePiece(bytes, "t.model", {});
      if (tokenizer.ok()) (void)(*tokenizer)->Encode("the A \u00E9 \uFF21 fox");
    }
  }
}

TEST(OpenTokenizerTest, TheFirstFileThatIsThereCounts) {
  const TemporaryFolder folder;
  const absl::Status none = OpenTokenizer(folder.path(), 0).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("tokenizer.json"));
  folder.Write(
      "tokens.json",
      R"([{"piece": "<s>", "score": 0}, {"piece": " ", "score": 0}, {"piece": "a", "score": 0}])");
  EXPECT_EQ(*(*OpenTokenizer(folder.path(), 0))->Encode("a"), (std::vector<int32_t>{0, 1, 2}));
  folder.Write("tokenizer.model", Model("good_bpe"));
  EXPECT_GT((*OpenTokenizer(folder.path(), 0))->size(), 256);
  folder.Write("tokenizer.json", R"({"model": {"vocab": {"a": 0}, "merges": []}})");
  EXPECT_EQ((*OpenTokenizer(folder.path(), 0))->size(), 1);
  folder.Write("tokenizer.json", "{");
  EXPECT_FALSE(OpenTokenizer(folder.path(), 0).ok()) << "nothing else is taken in its place";
}

}  // namespace
}  // namespace npubank

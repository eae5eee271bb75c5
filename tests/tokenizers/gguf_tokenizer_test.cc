#include "npubank/tools/tokenizers/gguf/gguf_tokenizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/unit/formats/gguf_builder.h"
#include "npubank/tests/unit/formats/test_files.h"
#include "npubank/tools/tokenizers/open_tokenizer.h"
#include "npubank/tools/tokenizers/text/byte_text.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using B = GgufBuilder;

void ExpectRefused(const absl::Status& status, const std::string& what) {
  ASSERT_FALSE(status.ok()) << what;
  EXPECT_THAT(std::string(status.message()), HasSubstr("x.gguf"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

GgufBuilder Tokens(const std::string& model, const std::vector<std::string>& tokens,
                   const std::vector<int>& types) {
  std::vector<std::string> texts, kinds;
  for (const std::string& token : tokens) texts.push_back(B::String(token));
  for (const int type : types) kinds.push_back(B::Little(type, 4));
  GgufBuilder builder;
  builder.Text("tokenizer.ggml.model", model);
  builder.Array("tokenizer.ggml.tokens", kGgufString, texts);
  if (!types.empty()) builder.Array("tokenizer.ggml.token_type", kGgufInt32, kinds);
  return builder;
}

GgufBuilder Scored(const std::vector<std::string>& tokens, const std::vector<float>& scores,
                   const std::vector<int>& types) {
  std::vector<std::string> numbers;
  for (const float score : scores) numbers.push_back(B::Float(score));
  return Tokens("llama", tokens, types).Array("tokenizer.ggml.scores", kGgufFloat32, numbers);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const GgufBuilder& builder) {
  GgufBuilder copy = builder;
  const auto file = ReadGguf(*SourceOf(copy.Finish(0), "x.gguf"));
  EXPECT_TRUE(file.ok()) << file.status();
  return GgufTokenizer(*file, "x.gguf");
}

std::vector<int32_t> Ids(const GgufBuilder& builder, const std::string& text,
                         SpecialText special = SpecialText::kTokens) {
  const auto tokenizer = TokenizerOf(builder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  if (!tokenizer.ok()) return {};
  const auto ids = (*tokenizer)->Encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return *ids;
}

TEST(GgufTokenizerTest, ScoredPiecesHaveSpacesAndControlPiecesAreNoText) {
  const GgufBuilder file =
      Scored({"<unk>", "<s>", "<0x41>", "\xE2\x96\x81the", "t", "h", "e", "\xE2\x96\x81", "th"},
             {0, 0, 0, -6, -1, -1, -1, -1, -2}, {2, 3, 6, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(Ids(file, "theA"), ElementsAre(1, 7, 8, 6, 2));
  EXPECT_THAT(Ids(file, "<s><unk>"), ElementsAre(1, 1, 0));
  EXPECT_EQ((*TokenizerOf(file))->Decode({1, 3, 2, 3}), "theA the");
}

TEST(GgufTokenizerTest, WhatATextGetsAroundItIsObeyed) {
  const GgufBuilder plain = Scored({"a", "<s>", "\u2581"}, {0, 0, 0}, {});
  EXPECT_THAT(Ids(plain, "a"), ElementsAre(1, 2, 0)) << "as llama.cpp does where nothing is said";
  GgufBuilder other = plain;
  other.Raw("tokenizer.ggml.add_bos_token", kGgufBool, B::Little(0, 1))
      .Raw("tokenizer.ggml.add_space_prefix", kGgufBool, B::Little(0, 1))
      .Raw("tokenizer.ggml.add_eos_token", kGgufBool, B::Little(1, 1))
      .Number("tokenizer.ggml.eos_token_id", 1);
  EXPECT_THAT(Ids(other, "a"), ElementsAre(0, 1));
}

TEST(GgufTokenizerTest, SettingsOfAVocabularyAreObeyedOrRefusedByName) {
  const GgufBuilder base = Scored({"a", "b"}, {0, 0}, {});
  const auto with = [&](auto change) {
    GgufBuilder builder = base;
    change(builder);
    return TokenizerOf(builder).status();
  };
  ExpectRefused(with([](B& b) { b.Number("tokenizer.ggml.add_bos_token", 1); }),
                "'tokenizer.ggml.add_bos_token' must be true or false");
  const auto add_eos = [](B& b) {
    b.Raw("tokenizer.ggml.add_eos_token", kGgufBool, B::Little(1, 1));
  };
  ExpectRefused(with(add_eos), "add_eos_token");
  ExpectRefused(with([&](B& b) { add_eos(b.Number("tokenizer.ggml.eos_token_id", 2)); }),
                "eos_token_id");
  ExpectRefused(with([](B& b) {
                  b.Raw("tokenizer.ggml.remove_extra_whitespaces", kGgufBool, B::Little(1, 1));
                }),
                "remove_extra_whitespaces");
  ExpectRefused(with([](B& b) { b.Text("tokenizer.ggml.precompiled_charsmap", "x"); }),
                "'tokenizer.ggml.precompiled_charsmap' is not known");
  EXPECT_EQ(
      with([](B& b) {
        b.Number("tokenizer.ggml.padding_token_id", 0).Text("tokenizer.chat_template", "{{}}");
        b.Text("tokenizer.ggml.pre", "default").Number("tokenizer.ggml.eot_token_id", 1);
      }),
      absl::OkStatus());
}

TEST(GgufTokenizerTest, BrokenVocabulariesAreRefused) {
  ExpectRefused(TokenizerOf(Scored({"a", "b"}, {0}, {})).status(), "scores");
  ExpectRefused(TokenizerOf(Scored({"a", "b"}, {0, 0}, {1})).status(), "token_type");
  ExpectRefused(TokenizerOf(Scored({"a"}, {HUGE_VALF}, {})).status(), "id 0");
  ExpectRefused(TokenizerOf(GgufBuilder().Text("tokenizer.ggml.model", "llama")).status(),
                "tokens");
  ExpectRefused(TokenizerOf(Scored({"a"}, {0}, {9})).status(), "token_type");
  EXPECT_EQ(TokenizerOf(GgufBuilder().Text("tokenizer.ggml.model", "bert")).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(TokenizerOf(GgufBuilder()).status().code(), absl::StatusCode::kNotFound);
}

// 256 bytes, then the merges' tokens.
GgufBuilder Merged(const std::string& pre, const std::vector<std::string>& merges,
                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> tokens, listed;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(ToByteText(std::string(1, static_cast<char>(byte))));
  for (const std::string& merge : merges) {
    listed.push_back(B::String(merge));
    tokens.push_back(merge);
    tokens.back().erase(merge.find(' '), 1);
  }
  std::vector<int> types(tokens.size(), 1);
  for (const std::string& token : more) tokens.push_back(token), types.push_back(3);
  GgufBuilder builder = Tokens("gpt2", tokens, types);
  if (!pre.empty()) builder.Text("tokenizer.ggml.pre", pre);
  builder.Array("tokenizer.ggml.merges", kGgufString, listed);
  return builder;
}

TEST(GgufTokenizerTest, MergesMakeTokensOfBytesWithinWords) {
  const GgufBuilder file = Merged("gpt-2", {"t h", "th e", "e \u0120"}, {"<|x|>"});
  EXPECT_THAT(Ids(file, "the t"), ElementsAre(257, 32, 't')) << "no merge across words";
  EXPECT_THAT(Ids(file, "\u00E9<|x|>"), ElementsAre(0xC3, 0xA9, 259));
  EXPECT_THAT(Ids(file, "<|x|>", SpecialText::kPlain), ElementsAre('<', '|', 'x', '|', '>'));
  EXPECT_EQ((*TokenizerOf(file))->Decode({257, 32, 0xC3, 259, 0xA9}), "the \u00E9");
}

TEST(GgufTokenizerTest, TheNameOfItsWordsDecidesWhatMerges) {
  const std::vector<std::string> merges = {"1 2", "12 3", "123 4", "\u0120 1"};
  EXPECT_THAT(Ids(Merged("gpt-2", merges), "1234"), ElementsAre(258));
  EXPECT_THAT(Ids(Merged("qwen2", merges), "1234"), ElementsAre('1', '2', '3', '4'));
  EXPECT_THAT(Ids(Merged("smollm", merges), "1234 1"), ElementsAre('1', '2', '3', '4', ' ', '1'));
  EXPECT_THAT(Ids(Merged("gpt-4o", merges), "1234"), ElementsAre(257, '4'));
  EXPECT_THAT(Ids(Merged("", merges), "1234"), ElementsAre(257, '4')) << "\"default\"";
  GgufBuilder llama = Merged("llama-bpe", merges, {"<|begin|>"});
  llama.Number("tokenizer.ggml.bos_token_id", 260);
  EXPECT_THAT(Ids(llama, "1234"), ElementsAre(260, 257, '4'));
}

TEST(GgufTokenizerTest, UnknownWordsAndBrokenMergesAreRefusedByName) {
  ExpectRefused(TokenizerOf(Merged("martian", {})).status(), "'martian'");
  EXPECT_EQ(TokenizerOf(Merged("martian", {})).status().code(), absl::StatusCode::kUnimplemented);
  ExpectRefused(TokenizerOf(Tokens("gpt2", {"a"}, {})).status(), "tokenizer.ggml.merges");
  GgufBuilder missing = Tokens("gpt2", {"a", "b"}, {});
  missing.Array("tokenizer.ggml.merges", kGgufString, {B::String("a b")});
  ExpectRefused(TokenizerOf(missing).status(), "'ab'");
  GgufBuilder twice = Tokens("gpt2", {"a", "a"}, {});
  twice.Array("tokenizer.ggml.merges", kGgufString, {});
  ExpectRefused(TokenizerOf(twice).status(), "twice");
}

TEST(GgufTokenizerTest, TheStoriesModelSpeaksAsItsFolder) {
  const auto folder = OpenTokenizer(StoriesFolder(), 1);
  const auto gguf = OpenTokenizer(StoriesGguf(), 1);
  ASSERT_TRUE(folder.ok() && gguf.ok()) << folder.status() << gguf.status();
  for (const char* text : {"Once upon a time", "", "  two  spaces", "caf\u00E9 \U0001F600\n"}) {
    const auto ids = (*gguf)->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, *(*folder)->Encode(text)) << text;
    EXPECT_EQ((*gguf)->Decode(*ids), text);
  }
}

}  // namespace
}  // namespace npubank

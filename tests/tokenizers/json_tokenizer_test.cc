#include "npubank/tools/tokenizers/json/json_tokenizer.h"
#include "npubank/tools/tokenizers/json/pre_tokenizer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tools/tokenizers/merge_pairs.h"
#include "npubank/tools/tokenizers/text/byte_text.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Characters a to e, then what the merges make, then what is added.
Json SmallModel(const std::vector<std::string>& merges) {
  Json vocabulary;
  for (const char* letter : {"a", "b", "c", "d", "e"}) vocabulary[letter] = vocabulary.size();
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    if (!vocabulary.contains(merge)) vocabulary[merge] = vocabulary.size();
  }
  return {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}};
}

Json Bytes(const std::vector<std::string>& merges) {
  Json vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[ToByteText(std::string(1, static_cast<char>(byte)))] = byte;
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    vocabulary[merge] = vocabulary.size();
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}}};
}

std::unique_ptr<Tokenizer> Parsed(const Json& json) {
  auto tokenizer = ParseTokenizerJson(json.dump(), "t.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::vector<int32_t> Ids(const Json& json, const std::string& text,
                         SpecialText special = SpecialText::kTokens) {
  const auto tokenizer = Parsed(json);
  if (tokenizer == nullptr) return {};
  const auto ids = tokenizer->Encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<int32_t>();
}

void ExpectRefused(const Json& json, absl::StatusCode code, const std::string& what) {
  const absl::Status status = ParseTokenizerJson(json.dump(), "t.json").status();
  EXPECT_EQ(status.code(), code) << what << ": " << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("t.json"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

TEST(BpeTest, TheFirstMergeOfTheListComesFirstAndTheLeftmostOfEquals) {
  EXPECT_THAT(Ids({{"model", SmallModel({"a b", "b c"})}}, "abc"), ElementsAre(5, 2));
  EXPECT_THAT(Ids({{"model", SmallModel({"b c", "a b"})}}, "abc"), ElementsAre(0, 5));
  EXPECT_THAT(Ids({{"model", SmallModel({"a a"})}}, "aaa"), ElementsAre(5, 0));
}

// Merges as the definition says: the best pair of all, again and again.
std::vector<std::string> MergeByScanning(const std::vector<std::string>& merges,
                                         std::vector<std::string> parts) {
  for (;;) {
    size_t best_rank = merges.size(), best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto at = std::find(merges.begin(), merges.end(), parts[i] + " " + parts[i + 1]);
      const auto rank = static_cast<size_t>(at - merges.begin());
      if (rank < best_rank) best_rank = rank, best = i;
    }
    if (best_rank == merges.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(BpeTest, TheHeapMergesAsAScanWould) {
  std::mt19937_64 random(PrintedSeed());
  for (int round = 0; round < Repetitions(2000); ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"}, merges;
    for (int i = 0; i < 10; ++i) {
      const std::string left = tokens[random() % tokens.size()],
                        right = tokens[random() % tokens.size()];
      const std::string merge = left + " " + right;
      if (left.size() + right.size() > 6 ||
          std::find(merges.begin(), merges.end(), merge) != merges.end())
        continue;
      merges.push_back(merge);
      tokens.push_back(left + right);
    }
    std::string text;
    for (size_t n = random() % 30; n > 0; --n) text += static_cast<char>('a' + random() % 3);
    std::vector<std::string> letters;
    for (const char c : text) letters.emplace_back(1, c);
    const Json model = SmallModel(merges);
    std::vector<int32_t> expected;
    for (const std::string& part : MergeByScanning(merges, letters))
      expected.push_back(model["vocab"][part]);
    ASSERT_EQ(Ids({{"model", model}}, text), expected) << model.dump() << " " << text;
  }
}

// What time cannot show: each letter brings at most three pairs that are looked up and wait in the heap, however long the
// text, whether its letters double up to the end, always the first one grows, or none merges.
TEST(MergePairsTest, AsManyPairsAriseForALetterInALongTextAsInAShortOne) {
  const auto doubling = [](const Symbol& a, const Symbol& b) -> std::optional<Merge> {
    if (a.length != b.length) return std::nullopt;
    return Merge{static_cast<double>(a.length), static_cast<int32_t>(a.id + 1)};
  };
  const auto growing = [](const Symbol& a, const Symbol&) -> std::optional<Merge> {
    return Merge{static_cast<double>(a.begin), a.id};
  };
  const auto never = [](const Symbol&, const Symbol&) -> std::optional<Merge> { return std::nullopt; };
  using Rule = std::function<std::optional<Merge>(const Symbol&, const Symbol&)>;
  for (const Rule& rule : {Rule(doubling), Rule(growing), Rule(never)}) {
    std::vector<double> of_each_letter;
    for (const size_t letters : {size_t{1} << 10, size_t{1} << 15, size_t{1} << 20}) {
      std::vector<Symbol> symbols;
      for (size_t i = 0; i < letters; ++i) symbols.push_back({0, i, 1});
      size_t pairs = 0;
      MergePairs(symbols, [&](const Symbol& a, const Symbol& b) {
        ++pairs;
        return rule(a, b);
      });
      EXPECT_LE(pairs, 3 * letters);
      of_each_letter.push_back(static_cast<double>(pairs) / static_cast<double>(letters));
    }
    EXPECT_NEAR(of_each_letter.front(), of_each_letter.back(), 0.1);
  }
}

TEST(BpeTest, AMegabyteOfOneLetterIsNotQuadratic) {
  std::vector<std::string> merges;
  for (std::string half = "a"; half.size() < 64; half += half) merges.push_back(half + " " + half);
  const auto tokenizer = Parsed(Bytes(merges));
  ASSERT_NE(tokenizer, nullptr);
  const std::string text(1'000'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer->Encode(text);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(ids->size(), 1'000'000u / 64);
  EXPECT_EQ(tokenizer->Decode(*ids), text);
  EXPECT_LT(elapsed.count(), 30) << "a quadratic merge would take hours";
}

TEST(BpeTest, CharactersWithoutATokenAreTheirBytesOrTheUnknownToken) {
  Json model = SmallModel({});
  model["vocab"]["<unk>"] = 5;
  model["unk_token"] = "<unk>";
  EXPECT_THAT(Ids({{"model", model}}, "axyb"), ElementsAre(0, 5, 5, 1));
  model["fuse_unk"] = true;
  EXPECT_THAT(Ids({{"model", model}}, "axyb"), ElementsAre(0, 5, 1));
  model["byte_fallback"] = true;
  model["vocab"]["<0xC3>"] = 6;
  model["vocab"]["<0xA9>"] = 7;
  EXPECT_THAT(Ids({{"model", model}}, "a\u00E9\u00EA"), ElementsAre(0, 6, 7, 5))
      << "only whole characters";
  const auto none = Parsed({{"model", SmallModel({})}});
  EXPECT_THAT(std::string(none->Encode("z").status().message()), HasSubstr("no token for 'z'"));
}

TEST(BpeTest, AWordThatIsATokenStaysWholeWhereMergesAreIgnored) {
  Json model = SmallModel({"a b"});
  model["vocab"]["abc"] = 6;
  EXPECT_THAT(Ids({{"model", model}}, "abc"), ElementsAre(5, 2));
  model["ignore_merges"] = true;
  EXPECT_THAT(Ids({{"model", model}}, "abc"), ElementsAre(6));
}

TEST(AddedTokensTest, TheLongestAndLeftmostIsFoundAndItsOptionsAreObeyed) {
  Json json = Bytes({});
  const auto added = [](int id, const char* text, Json options) {
    options.update({{"id", id}, {"content", text}});
    return options;
  };
  json["added_tokens"] = {added(300, "<x>", {{"special", true}}),
                          added(301, "<x><y>", {{"special", true}}),
                          added(302, "<l>", {{"special", true}, {"lstrip", true}}),
                          added(303, "<r>", {{"special", true}, {"rstrip", true}}),
                          added(304, "word", {{"single_word", true}, {"normalized", false}}),
                          added(305, "plain", {{"normalized", false}})};
  EXPECT_THAT(Ids(json, "a<x><y><x>"), ElementsAre('a', 301, 300));
  EXPECT_THAT(Ids(json, "a \u3000<l> b"), ElementsAre('a', 302, ' ', 'b'));
  EXPECT_THAT(Ids(json, "a <r>\n b"), ElementsAre('a', ' ', 303, 'b'));
  EXPECT_THAT(Ids(json, "word,"), ElementsAre(304, ','));
  EXPECT_EQ(Ids(json, "words").size(), 5u);
  EXPECT_THAT(Ids(json, "<x>plain", SpecialText::kPlain), ElementsAre('<', 'x', '>', 305));
  EXPECT_EQ(Parsed(json)->Decode({300, 'a', 305}), "aplain");
}

TEST(AddedTokensTest, NormalizedOnesAreFoundInTheNormalisedText) {
  Json json = Bytes({});
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"] = {{{"id", 300}, {"content", "Yes"}, {"normalized", true}},
                          {{"id", 301}, {"content", "No"}, {"normalized", false}}};
  EXPECT_THAT(Ids(json, "YESNo"), ElementsAre(300, 301));
  EXPECT_THAT(Ids(json, "no"), ElementsAre('n', 'o'));
}

TEST(NormalizerTest, EveryKindDoesWhatItsNameSays) {
  const auto normalised = [](const Json& normalizer, const std::string& text) {
    Json json = Bytes({});
    json["normalizer"] = normalizer;
    return Parsed(json)->Decode(Ids(json, text));
  };
  EXPECT_EQ(normalised({{"type", "NFC"}}, "e\u0301"), "\u00E9");
  EXPECT_EQ(normalised({{"type", "NFKD"}}, "\uFB01"), "fi");
  EXPECT_EQ(normalised({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " a "),
            "a ");
  EXPECT_EQ(normalised({{"type", "Strip"}}, " \u3000 "), "");
  EXPECT_EQ(normalised({{"type", "Prepend"}, {"prepend", "x"}}, "a"), "xa");
  EXPECT_EQ(normalised({{"type", "Prepend"}, {"prepend", "x"}}, ""), "");
  EXPECT_EQ(normalised({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "_"}},
                       "a  b c"),
            "a_b c");
  EXPECT_EQ(normalised({{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "NFD"}}, {{"type", "StripAccents"}}, {{"type", "Lowercase"}}}}},
                       "\u00C9"),
            "e");
}

// The words that a pre-tokenizer makes, with '|' between them.
std::string Words(const Json& pre_tokenizer, const std::string& text) {
  Json vocabulary = {{"|", 0}};
  Json json = {
      {"model",
       {{"vocab", vocabulary}, {"merges", Json::array()}, {"unk_token", "|"}, {"fuse_unk", true}}}};
  json["pre_tokenizer"] = pre_tokenizer;
  // Each word is one unknown token: their number tells the cuts.
  return std::string(Ids(json, text).size(), '|');
}

TEST(PreTokenizerTest, MatchesGoWhereTheirBehaviourSays) {
  const auto split = [](const char* behavior, bool invert = false) {
    return Json{{"type", "Split"},
                {"pattern", {{"String", "-"}}},
                {"behavior", behavior},
                {"invert", invert}};
  };
  EXPECT_EQ(Words(split("Isolated"), "a--b"), "||||");
  EXPECT_EQ(Words(split("Removed"), "a--b"), "||");
  EXPECT_EQ(Words(split("Removed", true), "a--b"), "||");
  EXPECT_EQ(Words(split("MergedWithPrevious"), "a--b"), "|||");
  EXPECT_EQ(Words(split("MergedWithNext"), "a--b"), "|||");
  EXPECT_EQ(Words(split("Contiguous"), "a--b"), "|||");
  EXPECT_EQ(Words({{"type", "Digits"}, {"individual_digits", true}}, "a12"), "|||");
  EXPECT_EQ(Words({{"type", "Digits"}, {"individual_digits", false}}, "a12"), "||");
  EXPECT_EQ(Words({{"type", "Punctuation"}, {"behavior", "Isolated"}}, "a+\u2026b"), "||||");
  EXPECT_EQ(Words({{"type", "WhitespaceSplit"}}, " a b. "), "||");
  EXPECT_EQ(Words({{"type", "Whitespace"}}, " a b. "), "|||");
  EXPECT_EQ(Words({{"type", "Metaspace"}}, "a b  c"), "||||");
  EXPECT_EQ(Words({{"type", "ByteLevel"}}, "it's 12 x"), "||||");
}

Json Pieces(Json pre_tokenizer, Json decoder) {
  Json model = SmallModel({"\u2581 a"});
  model["vocab"]["\u2581"] = 6;
  model["vocab"]
       ["\u2581"
        "a"] = 5;
  return {{"model", model}, {"pre_tokenizer", pre_tokenizer}, {"decoder", decoder}};
}

TEST(PreTokenizerTest, MetaspacePrependsAlwaysFirstOrNever) {
  const auto metaspace = [](const char* scheme) {
    const Json part = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}};
    Json json = Pieces(part, part);
    json["added_tokens"] = {{{"id", 9}, {"content", "<x>"}, {"special", true}}};
    return json;
  };
  EXPECT_THAT(Ids(metaspace("always"), "a<x>a"), ElementsAre(5, 9, 5));
  EXPECT_THAT(Ids(metaspace("first"), "a<x>a"), ElementsAre(5, 9, 0));
  EXPECT_THAT(Ids(metaspace("never"), "a a"), ElementsAre(0, 5));
  for (const char* scheme : {"always", "first", "never"})
    EXPECT_EQ(Parsed(metaspace(scheme))->Decode(Ids(metaspace(scheme), "a a")), "a a") << scheme;
}

TEST(PostProcessorTest, ATemplatePutsTokensAroundTheText) {
  Json json = {{"model", SmallModel({})}};
  const Json bos = {{"SpecialToken", {{"id", "B"}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json specials = {{"B", {{"id", "B"}, {"ids", {3, 4}}, {"tokens", {"d", "e"}}}}};
  json["post_processor"] = {{"type", "Sequence"},
                            {"processors",
                             {{{"type", "ByteLevel"}, {"trim_offsets", false}},
                              {{"type", "TemplateProcessing"},
                               {"single", {bos, text, bos}},
                               {"pair", Json::array()},
                               {"special_tokens", specials}}}}};
  EXPECT_THAT(Ids(json, "a"), ElementsAre(3, 4, 0, 3, 4));
  EXPECT_THAT(Ids(json, ""), ElementsAre(3, 4, 3, 4));
  json["post_processor"]["processors"][1]["special_tokens"]["B"]["ids"] = Json::array({9});
  ExpectRefused(json, absl::StatusCode::kInvalidArgument, "token 9");
  json["post_processor"]["processors"][1]["single"] = Json::array({bos});
  ExpectRefused(json, absl::StatusCode::kInvalidArgument, "sequence A once");
}

TEST(TokenDecoderTest, TextComesInWholeCharactersWhateverTheTokensAre) {
  const auto tokenizer = Parsed(Bytes({}));
  const std::string text = "a\u00E9\u4F60\U0001F600z";
  const auto ids = tokenizer->Encode(text);
  TextStream stream(*tokenizer);
  std::string told;
  for (const int32_t id : *ids) {
    const std::string more = stream.Push(id);
    EXPECT_EQ(ValidUtf8(more), more);
    EXPECT_EQ(more.find("\uFFFD"), std::string::npos);
    told += more;
  }
  EXPECT_EQ(told + stream.Finish(), text);
  EXPECT_EQ(stream.Push(0xC3), "");
  EXPECT_EQ(stream.Push('x'), "\uFFFDx") << "what cannot be completed any more";
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(0x9F), "");
  EXPECT_EQ(stream.Finish(), "\uFFFD");
  EXPECT_EQ(tokenizer->Decode({-1, 'a', 100000}), "a");
}

TEST(TokenDecoderTest, PiecesBytesAndTheFirstSpaceComeBack) {
  Json json = Pieces(
      nullptr, {{"type", "Sequence"},
                {"decoders",
                 {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}},
                  {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}});
  json["model"]["vocab"]["<0xC3>"] = 7;
  json["model"]["vocab"]["<0xA9>"] = 8;
  EXPECT_EQ(Parsed(json)->Decode({5, 5, 7, 8}), "a a\u00E9");
  EXPECT_EQ(Parsed(json)->Decode({6, 5}), " a") << "one space was put there";
}

TEST(TokenDecoderTest, WithoutADecoderTokensAreJoinedBySpaces) {
  EXPECT_EQ(Parsed({{"model", SmallModel({})}})->Decode({0, 1}), "a b");
}

TEST(TokenizerJsonTest, UnknownPartsAreRefusedByName) {
  const auto with = [](const char* key, Json value) {
    Json json = Bytes({});
    json[key] = std::move(value);
    return json;
  };
  const auto model = [](const char* key, Json value) {
    Json json = Bytes({});
    json["model"][key] = std::move(value);
    return json;
  };
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  constexpr auto kWrong = absl::StatusCode::kInvalidArgument;
  ExpectRefused(with("normalizer", {{"type", "Precompiled"}}), kUnknown,
                "normalizer: type 'Precompiled'");
  ExpectRefused(with("normalizer", {{"type", "NFC"}, {"level", 2}}), kUnknown, "'level'");
  ExpectRefused(with("pre_tokenizer", {{"type", "UnicodeScripts"}}), kUnknown, "'UnicodeScripts'");
  ExpectRefused(with("post_processor", {{"type", "BertProcessing"}}), kUnknown, "'BertProcessing'");
  ExpectRefused(with("decoder", {{"type", "WordPiece"}}), kUnknown, "decoder: type 'WordPiece'");
  ExpectRefused(with("extra", 1), kUnknown, "'extra'");
  ExpectRefused(with("version", "2.0"), kWrong, "version");
  ExpectRefused(model("type", "Unigram"), kUnknown, "model: type 'Unigram'");
  ExpectRefused(model("dropout", 0.1), kWrong, "dropout");
  ExpectRefused(model("end_of_word_suffix", "</w>"), kWrong, "end_of_word_suffix");
  ExpectRefused(model("novelty", true), kUnknown, "'novelty'");
  ExpectRefused(model("merges", {"a b c"}), kWrong, "merge 0");
  ExpectRefused(model("merges", {"a b"}), kWrong, "'ab'");
  ExpectRefused(model("unk_token", "none"), kWrong, "'none'");
  ExpectRefused(model("vocab", {{"a", 0}, {"b", 0}}), kWrong, "one id");
  ExpectRefused(model("vocab", {{"a", -1}}), kWrong, "'a'");
  ExpectRefused(with("added_tokens", {{{"content", "x"}}}), kWrong, "added token 0: 'id'");
  ExpectRefused(with("added_tokens", {{{"id", 1}, {"content", ""}}}), kWrong, "added token 1");
  ExpectRefused(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "["}}}}), kWrong,
                "pattern '['");
  ExpectRefused(with("pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "  "}}), kWrong,
                "one character");
  ExpectRefused(Json::array(), kWrong, "object");
}

// Each step alone would go on for ever: bytes double, and every letter becomes as many as a page has. The text begins so
// near the limit, and a step makes so much, that what is stopped is the second one.
TEST(TokenizerJsonTest, AFileThatBlowsTextUpIsStopped) {
  Json doubling = Json::array();
  for (int i = 0; i < 60; ++i) doubling.push_back({{"type", "ByteLevel"}, {"use_regex", false}});
  Json json = Bytes({});
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", doubling}};
  const std::string spaces(PreTokenizer::kMaxBytes / 4 + 1, ' ');
  EXPECT_EQ(Parsed(json)->Encode(spaces).status().code(), absl::StatusCode::kResourceExhausted);
  Json replacing = Json::array();
  for (int i = 0; i < 60; ++i)
    replacing.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(4096, 'a')}});
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", replacing}};
  EXPECT_EQ(Parsed(json)->Encode("aaaaa").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(TokenizerJsonTest, InvalidTextIsEncodedAsWhatReplacesIt) {
  EXPECT_EQ(Ids(Bytes({}), "a\xFF"), Ids(Bytes({}), "a\uFFFD"));
}

TEST(TokenizerJsonTest, AnyTextSurvivesBytes) {
  std::mt19937_64 random(PrintedSeed());
  const auto tokenizer = Parsed(Bytes({"t h", "th e", "h e", "\u0120 t", "\u0120t he", "\u00C3 \u00A9"}));
  const std::vector<std::string> parts = {
      "the", " ", "\u00E9", "\n", "\U0001F600", "1", "'s", std::string(1, '\0'), "\u2581"};
  for (int round = 0; round < Repetitions(5000); ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += parts[random() % parts.size()];
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    ASSERT_EQ(tokenizer->Decode(*ids), text);
  }
}

}  // namespace
}  // namespace npubank

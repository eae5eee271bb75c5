// What tokenizers know of text: UTF-8, Unicode, spelled bytes, patterns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "npubank/tools/tokenizers/text/byte_text.h"
#include "npubank/tools/tokenizers/text/regex.h"
#include "npubank/tools/tokenizers/text/unicode.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Utf8Test, WhatIsNoCharacterIsReplacedPieceByPieceAsInPython) {
  // bytes.decode("utf-8", errors="replace")
  const std::pair<std::string, std::string> kCases[] = {
      {"a\xFFz", "a\uFFFDz"},
      {"\xC3(", "\uFFFD("},
      {"\xE2\x82", "\uFFFD"},
      {"\xE2\x82\xE2\x82\xAC", "\uFFFD\u20AC"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},
      {"\xF0\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x9F\x98\x80\xF0\x9F\x98", "\U0001F600\uFFFD"}};
  for (const auto& [bytes, text] : kCases)
    EXPECT_EQ(ValidUtf8(bytes), text) << testing::PrintToString(bytes);
}

TEST(Utf8Test, EveryCodeSurvivesAndItsFrontIsCut) {
  for (char32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code, text);
    ASSERT_TRUE(FirstChar(text).valid);
    ASSERT_EQ(FirstChar(text).code, code);
    ASSERT_EQ(LastChar("x" + text).code, code);
    ASSERT_EQ(CutCharBytes("x" + text), 0u);
    for (size_t bytes = 1; bytes < text.size(); ++bytes)
      ASSERT_EQ(CutCharBytes("x" + text.substr(0, bytes)), bytes);
  }
  EXPECT_EQ(CutCharBytes("\xFF"), 0u);
  EXPECT_EQ(CutCharBytes("\xED\xA0"), 0u) << "begins no character";
}

TEST(UnicodeTest, NormalFormsComposeDecomposeAndOrderMarks) {
  EXPECT_EQ(NormalText("e\u0301", NormalForm::kC), "\u00E9");
  EXPECT_EQ(NormalText("\u00E9", NormalForm::kD), "e\u0301");
  EXPECT_EQ(NormalText("\uFB01\uFF21", NormalForm::kKC), "fiA");
  EXPECT_EQ(NormalText("\uFB01", NormalForm::kC), "\uFB01");
  EXPECT_EQ(NormalText("s\u0307\u0323", NormalForm::kC), "\u1E69");
  EXPECT_EQ(NormalText("\u1112\u1161\u11AB", NormalForm::kC), "\uD55C");
  EXPECT_EQ(NormalText("\u2126", NormalForm::kC), "\u03A9");
  EXPECT_EQ(NormalText("plain", NormalForm::kKD), "plain");
}

TEST(UnicodeTest, ALongRunOfMarksIsNotQuadratic) {
  std::string marks = "a";
  while (marks.size() < 1'000'000) marks += "\u0301\u0316";
  const auto start = std::chrono::steady_clock::now();
  const std::string ordered = NormalText(marks, NormalForm::kD);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ordered.size(), marks.size());
  EXPECT_EQ(ordered.substr(0, 5), "a\u0316\u0316");
  EXPECT_LT(elapsed.count(), 30) << "a quadratic sort would take hours";
}

TEST(UnicodeTest, LowerCaseIsCharacterByCharacter) {
  EXPECT_EQ(Lowercase("\u00C4\u0130\u03A3A"),
            "\u00E4i\u0307\u03C3"
            "a");
  EXPECT_EQ(WithoutMarks("e\u0301a"), "ea");
}

TEST(UnicodeTest, SpacesAreThoseOfUnicode) {
  std::vector<uint32_t> spaces;
  for (char32_t code = 0; code <= 0x10FFFF; ++code)
    if (IsWhitespace(code)) spaces.push_back(code);
  EXPECT_THAT(spaces, ElementsAre(9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, 0x2000, 0x2001, 0x2002,
                                  0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A,
                                  0x2028, 0x2029, 0x202F, 0x205F, 0x3000));
  EXPECT_EQ(LeadingSpace(" \u3000a"), 4u);
  EXPECT_EQ(TrailingSpace("a\u2029\t"), 4u);
  EXPECT_EQ(TrailingSpace("  "), 2u);
}

TEST(ByteTextTest, EveryByteIsOneVisibleCharacter) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(FromByteText(ToByteText(bytes)), bytes);
  EXPECT_EQ(ToByteText(" \n\u00E9"), "\u0120\u010A\u00C3\u00A9");
  EXPECT_EQ(FromByteText("\u4F60"), "\u4F60") << "no byte text: as it is";
}

std::vector<std::string> Matches(const std::string& pattern, const std::string& text) {
  const auto regex = Regex::Create(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> matches;
  if (!regex.ok()) return matches;
  const absl::Status status = regex->ForEachMatch(
      text, [&](size_t begin, size_t end) { matches.push_back(text.substr(begin, end - begin)); });
  EXPECT_TRUE(status.ok()) << status;
  return matches;
}

TEST(RegexTest, WordsOfGpt2AreFound) {
  EXPECT_THAT(Matches(R"('s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                      "it's  12\u00E9 !\n\n x"),
              ElementsAre("it", "'s", " ", " 12", "\u00E9", " !", "\n\n", " x"));
}

TEST(RegexTest, PossessiveAndCaselessPatternsWork) {
  EXPECT_THAT(Matches(R"([^\r\n\p{L}\p{N}]?+\p{L}++|(?i:'ll))", "_ab'LL"),
              ElementsAre("_ab", "'LL"));
}

TEST(RegexTest, LettersOfTheOtherDialectMeanWhatTheyMeanThere) {
  EXPECT_THAT(Matches("\\s", "\u180E\u0085\u00A0"), ElementsAre("\u0085", "\u00A0")) << "no U+180E";
  EXPECT_THAT(Matches("[^\\s]+", "a\u180E b"), ElementsAre("a\u180E", "b"));
  EXPECT_THAT(Matches("[\\S]+", "a\u180E b"), ElementsAre("a\u180E", "b"));
  EXPECT_THAT(Matches("\\w+", "e\u0301_1-"), ElementsAre("e\u0301_1")) << "marks are of words";
  EXPECT_THAT(Matches("^a$", "a\na"), ElementsAre("a", "a"));
  EXPECT_THAT(Matches("\\u0041[\\u0042]", "AB"), ElementsAre("AB"));
  EXPECT_THAT(Matches("\\p{Han}", "\u4F60\u3001"), ElementsAre("\u4F60")) << "the script itself";
  EXPECT_THAT(Matches("[]a]+", "]a"), ElementsAre("]a"));
}

TEST(RegexTest, EmptyMatchesCutAndEnd) {
  EXPECT_THAT(Matches("(?=b)", "abab"), ElementsAre("", ""));
  EXPECT_THAT(Matches("a*", "aab"), ElementsAre("aa", ""));
}

TEST(RegexTest, WhatCannotBeTakenOverIsRefusedByName) {
  for (const auto& [pattern, what] : {std::pair{"a\\b", "\\b"},
                                      {"[a[bc]]", "class within"},
                                      {"[a&&b]", "intersection"},
                                      {"\\h", "\\h"},
                                      {"[\\W]", "\\W"},
                                      {"(", "missing"},
                                      {"a\\", "backslash"},
                                      {"\\K", "\\K"},
                                      {"\xFF", "UTF-8"}}) {
    const absl::Status status = Regex::Create(pattern).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(RegexTest, TheMatchLimitIsAnErrorByName) {
  const auto regex = Regex::Create("(?:a|a)*[bc]");
  ASSERT_TRUE(regex.ok()) << regex.status();
  const absl::Status status = regex->ForEachMatch(std::string(60, 'a'), [](size_t, size_t) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("match limit"));
}

}  // namespace
}  // namespace npubank

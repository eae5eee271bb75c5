// The vocabularies of GGUF files here and in llama.cpp: equal ids over hard strings. For tests by hand: where nobody has
// put llama.cpp (npm install --ignore-scripts node-llama-cpp, in a folder that NPUBANK_LLAMA_CPP names) it says so and skips.
//
// The scored vocabulary is the trained model's in tests/data. Those of merges are made up: 256 bytes and the pairs that are
// most frequent in the strings themselves, across words, so that a word which ends elsewhere has other ids.
//
// llama.cpp knows the words of gpt-4o and tekken by a pattern without the original's marks, and with the cases of ASCII's
// letters alone. Where that makes a difference the original's words are meant: over those two, strings of ASCII count.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/unit/formats/gguf_builder.h"
#include "npubank/tools/tokenizers/open_tokenizer.h"
#include "npubank/tools/tokenizers/text/byte_text.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using B = GgufBuilder;

std::vector<std::string> Strings() {
  std::vector<std::string> strings = {" ",
                                      "  ",
                                      "   a",
                                      "a ",
                                      "a  ",
                                      "Hello, world!",
                                      "Once upon a time",
                                      "I'm you're HE'LL it'S we'Ve 'tis",
                                      "\n",
                                      "\n\n",
                                      "\r\n",
                                      " \n ",
                                      "\t",
                                      "\t\t a",
                                      "a\n\n\n b",
                                      "a \u00A0b",
                                      "\u2028a\u2029b",
                                      "\u0085",
                                      "\u3000\u3000x",
                                      "1",
                                      "12",
                                      "123",
                                      "1234",
                                      "12345678901234567890",
                                      "3.14159",
                                      "1,000,000",
                                      "\u0661\u0662\u0663",
                                      "\u00BD \u2167",
                                      "e\u0301 \u00E9 \u1E69",
                                      "\u0130stanbul \u0131",
                                      "\uFB01 \uFF21\uFF22",
                                      "\uAC00 \u1100\u1161",
                                      "\U0001F468\u200D\U0001F469\u200D\U0001F467",
                                      "\U0001F3F3\uFE0F\u200D\U0001F308",
                                      "\U0001F44D\U0001F3FD",
                                      "\u05E9\u05DC\u05D5\u05DD \u05E2\u05D5\u05DC\u05DD",
                                      "\u0645\u0631\u062D\u0628\u0627",
                                      "\u202Eabc\u202C",
                                      "\u4F60\u597D\uFF0C\u4E16\u754C\u3002",
                                      "\u3053\u3093\u306B\u3061\u306F",
                                      "\u0928\u092E\u0938\u094D\u0924\u0947",
                                      "def f(x):\n    return x ** 2\n\n\n# end\n",
                                      "{\"a\": [1, 2.5e-3, null]}",
                                      "<div class=\"x\">&amp;</div>",
                                      "http://example.com/a?b=c&d=%20",
                                      "snake_case camelCase SCREAMING_CASE",
                                      "...!?!",
                                      "\u2026\u2014\u201Cquotes\u201D",
                                      "$100 \u20AC50 \u00A330",
                                      "C:\\\\x\\n",
                                      "--- +++ ===",
                                      "<s>",
                                      "</s>a",
                                      "<|im_end|>",
                                      "\u2581a \u2581",
                                      std::string(300, 'a'),
                                      std::string(300, ' '),
                                      std::string(77, '\n'),
                                      std::string(100, '1')};
  const std::vector<std::string> pieces = {
      "a",      "b",       "the",    " the",   "ing",    "'s",         "'LL",    " ",      "  ",
      "\n",     "\r\n",    "\t",     "1",      "23",     ".",          ",",      "!",      "(",
      "\u00E9", "e\u0301", "\u00DF", "\u4F60", "\u0301", "\U0001F600", "\u200D", "\uFE0F", "\u05D0",
      "\u0628", "_",       "-",      "\u00A0", "Z",      "QU"};
  std::mt19937_64 random(PrintedSeed());
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = 1 + random() % 30; n > 0; --n) text += pieces[random() % pieces.size()];
    strings.push_back(std::move(text));
  }
  return strings;
}

// Byte texts of the strings, merged by the most frequent pair again and again.
std::vector<std::pair<std::string, std::string>> TrainMerges(
    const std::vector<std::string>& strings, int count) {
  std::vector<std::vector<std::string>> corpus;
  for (const std::string& text : strings) {
    corpus.emplace_back();
    for (const char c : text) corpus.back().push_back(ToByteText(std::string(1, c)));
  }
  std::vector<std::pair<std::string, std::string>> merges;
  while (static_cast<int>(merges.size()) < count) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const auto& text : corpus) {
      for (size_t i = 1; i < text.size(); ++i) ++pairs[{text[i - 1], text[i]}];
    }
    auto best = pairs.begin();
    for (auto at = pairs.begin(); at != pairs.end(); ++at) {
      if (at->second > best->second) best = at;
    }
    const auto merge = best->first;
    for (auto& text : corpus) {
      for (size_t i = 1; i < text.size(); ++i) {
        if (text[i - 1] != merge.first || text[i] != merge.second) continue;
        text[i - 1] += text[i];
        text.erase(text.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    merges.push_back(merge);
  }
  return merges;
}

std::string MergedGguf(const std::string& pre, const std::vector<std::string>& strings) {
  std::vector<std::string> tokens, merges, kinds;
  std::map<std::string, bool> known;
  const auto add = [&](const std::string& token) {
    if (!known.emplace(token, true).second) return;
    tokens.push_back(B::String(token));
    kinds.push_back(B::Little(1, 4));
  };
  for (int byte = 0; byte < 256; ++byte) add(ToByteText(std::string(1, static_cast<char>(byte))));
  for (const auto& [left, right] : TrainMerges(strings, 300)) {
    merges.push_back(B::String(left + " " + right));
    add(left + right);
  }
  tokens.push_back(B::String("<|end|>"));
  kinds.push_back(B::Little(3, 4));
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", pre);
  builder.Array("tokenizer.ggml.tokens", kGgufString, tokens);
  builder.Array("tokenizer.ggml.token_type", kGgufInt32, kinds);
  builder.Array("tokenizer.ggml.merges", kGgufString, merges);
  const auto end = static_cast<uint32_t>(tokens.size() - 1);
  builder.Number("tokenizer.ggml.bos_token_id", end).Number("tokenizer.ggml.eos_token_id", end);
  return builder.Finish(0);
}

class LlamaCppTokenizersTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (folder_ == nullptr)
      GTEST_SKIP() << "NPUBANK_LLAMA_CPP names no folder with node-llama-cpp in it";
  }
  void ExpectTheSameIds(const std::string& model, const std::vector<std::string>& strings) const {
    const TemporaryFolder folder;
    const ProgramResult result = RunProgram(
        {"/usr/bin/env", "node", NPUBANK_SOURCE_DIR "/tests/tokenizers/llama_cpp_tokens.mjs",
         folder_, model, folder.Write("strings.json", Json(strings).dump())});
    ASSERT_EQ(result.exit_status, 0) << result.error;
    const auto tokenizer = OpenTokenizer(model, {});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const auto around = (*tokenizer)->Encode("");  // BOS, where the model has one
    ASSERT_TRUE(around.ok()) << around.status();
    std::istringstream lines(result.out);
    std::string line;
    int differ = 0;
    for (const std::string& text : strings) {
      ASSERT_TRUE(std::getline(lines, line)) << "llama.cpp says less";
      auto ours = (*tokenizer)->Encode(text, SpecialText::kPlain);
      ASSERT_TRUE(ours.ok()) << ours.status();
      ours->erase(ours->begin(), ours->begin() + static_cast<ptrdiff_t>(around->size()));
      const std::vector<int32_t> theirs = Json::parse(line);
      EXPECT_EQ(*ours, theirs) << Json(text);
      differ += *ours != theirs;
      ASSERT_LT(differ, 10) << "and so on";
    }
  }

  const char* const folder_ = std::getenv("NPUBANK_LLAMA_CPP");
};

std::vector<std::string> StringsFor(const std::string& words) {
  std::vector<std::string> strings = Strings();
  if (words != "gpt-4o" && words != "tekken") return strings;
  std::erase_if(strings, [](const std::string& text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return !absl::ascii_isascii(static_cast<unsigned char>(c)); });
  });
  for (size_t i = 0; i < 500; ++i) {  // of what there are few left
    strings.push_back(absl::StrCat(strings[i % strings.size()],
                                   strings[(7 * i + 3) % strings.size()],
                                   strings[i * i % strings.size()]));
  }
  return strings;
}

TEST_F(LlamaCppTokenizersTest, AScoredVocabularyGivesTheSameIds) {
  ExpectTheSameIds(StoriesGguf(), Strings());
}

TEST_P(LlamaCppTokenizersTest, MergesWithinTheWordsOfThatNameGiveTheSameIds) {
  const TemporaryFolder folder;
  const std::vector<std::string> strings = StringsFor(GetParam());
  ExpectTheSameIds(folder.Write("model.gguf", MergedGguf(GetParam(), strings)), strings);
}

INSTANTIATE_TEST_SUITE_P(Names, LlamaCppTokenizersTest,
                         ::testing::Values("default", "deepseek-coder", "falcon", "gpt-2", "gpt-4o",
                                           "llama-bpe", "qwen2", "smollm", "tekken"),
                         [](const auto& test) {
                           std::string name;
                           for (const char c : test.param) name += c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace npubank

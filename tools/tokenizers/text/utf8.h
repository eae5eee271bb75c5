// UTF-8, character by character, of text that may not be valid.
//
//   for (absl::string_view rest = text; !rest.empty();) {
//     const Utf8Char c = FirstChar(rest);           // c.valid, c.code, c.length
//     rest.remove_prefix(c.length);
//   }
//   ValidUtf8("a\xFF");                             // "a\uFFFD"
//
// What is not valid is cut into the longest pieces that could have begun a character, each of which stands for
// one U+FFFD: as the Unicode standard advises and as browsers, Python and JavaScript do. Threads: pure functions.
#ifndef NPUBANK_TOOLS_TOKENIZERS_TEXT_UTF8_H_
#define NPUBANK_TOOLS_TOKENIZERS_TEXT_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace npubank {

inline constexpr char32_t kReplacement = 0xFFFD;

struct Utf8Char {
  char32_t code = kReplacement;
  size_t length = 1;  // bytes, 1 at least
  bool valid = false;
  bool cut = false;  // not valid, but would be with more bytes after the end of the text
};

// Of text that is not empty; the last one of text that is also valid.
Utf8Char FirstChar(absl::string_view text);
Utf8Char LastChar(absl::string_view text);

void AppendUtf8(char32_t code, std::string& text);

// The same text where it is valid.
std::string ValidUtf8(absl::string_view text);

// How many bytes at the end of the text have begun a character that is not complete: 0 to 3.
size_t CutCharBytes(absl::string_view text);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_TEXT_UTF8_H_

// What tokenizers ask of Unicode: normal forms, lower case, marks, classes of characters.
//
//   NormalText("e\u0301", NormalForm::kC);   // "\u00E9"
//
// Text is valid UTF-8 (utf8.h). Over utf8proc: one small C library of tables, without locales and data files,
// where ICU would bring 30 MB of them for the same five functions. Marks are put in order here, since the
// library's own sort is quadratic in a run of them. Cost: O(n log n). Threads: pure functions.
#ifndef NPUBANK_TOOLS_TOKENIZERS_TEXT_UNICODE_H_
#define NPUBANK_TOOLS_TOKENIZERS_TEXT_UNICODE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace npubank {

enum class NormalForm { kC, kD, kKC, kKD };

std::string NormalText(absl::string_view text, NormalForm form);
// Character by character: no language, no context.
std::string Lowercase(absl::string_view text);
// Without nonspacing marks (Mn).
std::string WithoutMarks(absl::string_view text);

bool IsWhitespace(char32_t c);  // White_Space
bool IsWordChar(char32_t c);  // letters, marks, decimal digits, letter numbers, connectors, joiners

// Bytes of whitespace at the front and at the end.
size_t LeadingSpace(absl::string_view text);
size_t TrailingSpace(absl::string_view text);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_TEXT_UNICODE_H_

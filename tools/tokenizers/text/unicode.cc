#include "npubank/tools/tokenizers/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

using Codes = std::vector<utf8proc_int32_t>;

template <typename Each>
void ForEachChar(absl::string_view text, const Each& each) {
  while (!text.empty()) {
    const Utf8Char c = FirstChar(text);
    each(static_cast<utf8proc_int32_t>(c.code));
    text.remove_prefix(c.length);
  }
}

Codes Decomposed(absl::string_view text, bool compatible) {
  int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
  if (compatible) options |= UTF8PROC_COMPAT;
  Codes codes;
  codes.reserve(text.size());
  ForEachChar(text, [&](utf8proc_int32_t c) {
    std::array<utf8proc_int32_t, 32> parts;  // the longest has 18
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        c, parts.data(), parts.size(), static_cast<utf8proc_option_t>(options), nullptr);
    const bool whole = count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size());
    if (whole) codes.insert(codes.end(), parts.begin(), parts.begin() + count);
    if (!whole) codes.push_back(c);  // a code that the tables refuse
  });
  return codes;
}

utf8proc_propval_t CombiningClass(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Each run of marks by its combining class, equals as they came.
void OrderMarks(Codes& codes) {
  const auto is_mark = [](utf8proc_int32_t c) { return CombiningClass(c) != 0; };
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if(begin, codes.end(), is_mark);
    const auto end = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

std::string ToUtf8(const Codes& codes) {
  std::string text;
  text.reserve(codes.size());
  for (const utf8proc_int32_t c : codes) AppendUtf8(static_cast<char32_t>(c), text);
  return text;
}

}  // namespace

std::string NormalText(absl::string_view text, NormalForm form) {
  const bool ascii = std::all_of(text.begin(), text.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return std::string(text);
  Codes codes = Decomposed(text, form == NormalForm::kKC || form == NormalForm::kKD);
  OrderMarks(codes);
  if (form == NormalForm::kC || form == NormalForm::kKC) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
    if (count >= 0) codes.resize(static_cast<size_t>(count));
  }
  return ToUtf8(codes);
}

std::string Lowercase(absl::string_view text) {
  Codes codes;
  codes.reserve(text.size());
  ForEachChar(text, [&](utf8proc_int32_t c) {
    // The only character whose lower case is two, whatever the language.
    constexpr utf8proc_int32_t kDottedI = 0x130, kDotAbove = 0x307;
    codes.push_back(c == kDottedI ? 'i' : utf8proc_tolower(c));
    if (c == kDottedI) codes.push_back(kDotAbove);
  });
  return ToUtf8(codes);
}

std::string WithoutMarks(absl::string_view text) {
  Codes codes;
  codes.reserve(text.size());
  ForEachChar(text, [&](utf8proc_int32_t c) {
    if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) codes.push_back(c);
  });
  return ToUtf8(codes);
}

bool IsWhitespace(char32_t c) {
  if ((c >= 0x09 && c <= 0x0D) || c == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool IsWordChar(char32_t c) {
  constexpr char32_t kNonJoiner = 0x200C, kJoiner = 0x200D;
  if (c == kNonJoiner || c == kJoiner) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

size_t LeadingSpace(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Char c = FirstChar(text.substr(end));
    if (!IsWhitespace(c.code)) break;
    end += c.length;
  }
  return end;
}

size_t TrailingSpace(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const Utf8Char c = LastChar(text.substr(0, begin));
    if (!IsWhitespace(c.code)) break;
    begin -= c.length;
  }
  return text.size() - begin;
}

}  // namespace npubank

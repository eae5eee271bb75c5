#include "npubank/tools/tokenizers/text/utf8.h"

#include <algorithm>

namespace npubank {
namespace {

struct Lead {
  size_t length;            // 0: begins no character
  unsigned char low, high;  // what the second byte may be
  char32_t bits;            // of the code
};

Lead LeadOf(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0, byte};
  if (byte < 0xC2 || byte > 0xF4) return {0, 0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF, byte & 0x1Fu};
  if (byte < 0xF0) {
    // No long form of a short character, and no surrogate.
    const unsigned char low = byte == 0xE0 ? 0xA0 : 0x80;
    const unsigned char high = byte == 0xED ? 0x9F : 0xBF;
    return {3, low, high, byte & 0x0Fu};
  }
  const unsigned char low = byte == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = byte == 0xF4 ? 0x8F : 0xBF;  // nothing over U+10FFFF
  return {4, low, high, byte & 0x07u};
}

}  // namespace

Utf8Char FirstChar(absl::string_view text) {
  const Lead lead = LeadOf(static_cast<unsigned char>(text[0]));
  Utf8Char result;
  if (lead.length == 0) return result;
  char32_t code = lead.bits;
  for (size_t i = 1; i < lead.length; ++i) {
    result.cut = i == text.size();
    if (result.cut) return result;
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return result;
    code = code << 6 | (byte & 0x3Fu);
    result.length = i + 1;
  }
  result.code = code;
  result.valid = true;
  return result;
}

Utf8Char LastChar(absl::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return FirstChar(text.substr(begin));
}

void AppendUtf8(char32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = FirstChar(text);
    if (c.valid) {
      valid.append(text.data(), c.length);
    } else {
      AppendUtf8(kReplacement, valid);
    }
    text.remove_prefix(c.length);
  }
  return valid;
}

size_t CutCharBytes(absl::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(3, text.size()); ++bytes) {
    const absl::string_view tail = text.substr(text.size() - bytes);
    const Utf8Char c = FirstChar(tail);
    if (c.cut && c.length == bytes) return bytes;
  }
  return 0;
}

}  // namespace npubank

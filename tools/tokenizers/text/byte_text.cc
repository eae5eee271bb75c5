#include "npubank/tools/tokenizers/text/byte_text.h"

#include <array>
#include <cstdint>

#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr size_t kCodes = 0x100 + 68;  // 68 bytes are not visible

constexpr bool Visible(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<char32_t, 256> code_of = {};
  std::array<int16_t, kCodes> byte_of = {};  // -1: no byte
  constexpr Tables() {
    byte_of.fill(-1);
    char32_t next = kFirstSubstitute;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t code = Visible(byte) ? static_cast<char32_t>(byte) : next++;
      code_of[byte] = code;
      byte_of[code] = static_cast<int16_t>(byte);
    }
  }
};
constexpr Tables kTables;

}  // namespace

std::string ToByteText(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) AppendUtf8(kTables.code_of[static_cast<unsigned char>(c)], text);
  return text;
}

std::string FromByteText(absl::string_view text) {
  std::string bytes;
  for (absl::string_view rest = text; !rest.empty();) {
    const Utf8Char c = FirstChar(rest);
    if (!c.valid || c.code >= kCodes || kTables.byte_of[c.code] < 0) return std::string(text);
    bytes += static_cast<char>(kTables.byte_of[c.code]);
    rest.remove_prefix(c.length);
  }
  return bytes;
}

}  // namespace npubank

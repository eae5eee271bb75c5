// ByteOfToken: the byte that a token of the form "<0x0A>" stands for, or -1.
#ifndef NPUBANK_TOOLS_TOKENIZERS_BYTE_TOKEN_H_
#define NPUBANK_TOOLS_TOKENIZERS_BYTE_TOKEN_H_

#include "absl/strings/string_view.h"

namespace npubank {

inline int ByteOfToken(absl::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    byte = byte * 16 + digit;
  }
  return byte;
}

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_BYTE_TOKEN_H_

// Byte text: how vocabularies of the GPT-2 kind spell bytes: each byte as one visible character.
//
//   ToByteText(" é");          // "ĠÃ©"
//   FromByteText("ĠÃ©");        // " é"
//
// Bytes that are visible in Latin-1 stand for themselves, the others for U+0100, U+0101, ... in order.
// Threads: pure functions.
#ifndef NPUBANK_TOOLS_TOKENIZERS_TEXT_BYTE_TEXT_H_
#define NPUBANK_TOOLS_TOKENIZERS_TEXT_BYTE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace npubank {

std::string ToByteText(absl::string_view bytes);
// The bytes; a text with any other character is its own bytes.
std::string FromByteText(absl::string_view text);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_TEXT_BYTE_TEXT_H_

// Whatever a tokenizer.model says, a tokenizer that is accepted encodes any text to ids within it.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "npubank/tests/fuzz/tokenizers/hostile_tokenizer.h"
#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = npubank::ParseSentencePiece(text, "fuzz", {.bos = true, .eos = true});
  if (tokenizer.ok()) npubank::UseHostileTokenizer(**tokenizer, text);
  return 0;
}

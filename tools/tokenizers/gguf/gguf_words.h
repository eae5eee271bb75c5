// GgufWords: how texts are cut into words by the names that GGUF's tokenizer.ggml.pre has for it.
//
//   const GgufWords* words = GgufWords::Find("llama-bpe");   // null: not known
//   words->patterns;                                          // applied one after the other
//
// The names are llama.cpp's; what lies between the matches of a pattern is a word too. For "gpt-4o" and "tekken"
// the pattern is the one that the models were trained with; llama.cpp runs a rougher one for want of classes.
#ifndef NPUBANK_TOOLS_TOKENIZERS_GGUF_GGUF_WORDS_H_
#define NPUBANK_TOOLS_TOKENIZERS_GGUF_GGUF_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace npubank {

struct GgufWords {
  std::vector<const char*> names;
  std::vector<const char*> patterns;
  bool whole_words_first = false;  // a word that is a token is not taken apart
  bool add_bos = false;            // where the file does not say

  static const GgufWords* Find(absl::string_view name);
  // All names, for a message.
  static std::string Names();
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_GGUF_GGUF_WORDS_H_

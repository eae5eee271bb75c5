// The vocabulary inside a GGUF file, as a tokenizer.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, GgufTokenizer(gguf, "model.gguf"));
//
// tokenizer.ggml.model "llama" is SentencePiece's, by scores (scored_tokenizer.h); "gpt2" is byte pair encoding on
// bytes, whose words tokenizer.ggml.pre names (gguf_words.h): none means "default". Keys are those that llama.cpp
// writes. Ids of BOS and EOS, and whether a text gets them, are taken from the file, and where it does not say so
// as llama.cpp does: BOS before texts of "llama" and of Llama 3's words, nothing else.
//
// Errors: Unimplemented naming another model, another kind of words or a key that is not known; InvalidArgument
// naming the key for what is wrong with one. Threads: a pure function.
#ifndef NPUBANK_TOOLS_TOKENIZERS_GGUF_GGUF_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_GGUF_GGUF_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

// `name` is the file's, for messages. NotFound for a file without a vocabulary.
absl::StatusOr<std::unique_ptr<Tokenizer>> GgufTokenizer(const Gguf& file, const std::string& name);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_GGUF_GGUF_TOKENIZER_H_

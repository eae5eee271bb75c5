// tokenizer.json: what Hugging Face's fast tokenizers are saved as.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, ReadTokenizerJson("model/tokenizer.json"));
//
// Understood: models of type BPE, on bytes (GPT-2, Llama 3, Qwen) and on characters with bytes to fall back to
// (Llama 2, Mistral, Phi-3, Gemma); normalizers, pre-tokenizers, post-processors and decoders as their headers in
// this folder say; added tokens with all their options. "truncation" and "padding" are about batches and are
// not looked at. Everything else is refused by name: Unimplemented with the file, the part and its type or key.
//
// Errors also: NotFound for a missing file, InvalidArgument with file and part for what is wrong with it.
// Cost: a file of 10 MB takes half a second and ten times its size while it is read.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_JSON_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_JSON_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

inline constexpr uint64_t kMaxTokenizerJsonBytes = uint64_t{64} << 20;

// `file` appears in messages only.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizerJson(absl::string_view text,
                                                              const std::string& file);
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(const std::string& path);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_JSON_TOKENIZER_H_

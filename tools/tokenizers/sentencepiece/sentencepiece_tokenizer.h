// SentencePieceTokenizer: a tokenizer.model, run by libsentencepiece: BPE or unigram, with its own text rules.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
//                            ReadSentencePiece("model/tokenizer.model", {.bos = true}));
//
// Control pieces cannot be typed: text that spells one is text, whatever SpecialText says, as in the library.
// The file is checked before the library reads it (sentencepiece_file.h). Threads: immutable.
// Errors: those of the check; InvalidArgument with the library's own words.
#ifndef NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

struct AroundText {
  bool bos = true;   // before a text, where the file has such a piece
  bool eos = false;  // behind it
};

// `file` appears in messages only.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseSentencePiece(absl::string_view bytes,
                                                              const std::string& file,
                                                              const AroundText& around);
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadSentencePiece(const std::string& path,
                                                             const AroundText& around);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_TOKENIZER_H_

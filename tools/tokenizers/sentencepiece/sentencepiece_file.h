// SentencePieceFile: a tokenizer.model, checked before the library that runs it reads it.
//
//   NPUBANK_ASSIGN_OR_RETURN(const SentencePieceFile file, CheckSentencePiece(bytes, "model/tokenizer.model"));
//   file.adds_space;   // text gets a space in front
//
// The file is a protocol buffer (sentencepiece_model.proto). The library trusts the table of its text rules: an
// offset out of bounds there is read. Here every field is within the message that has it, each piece has a text and
// a finite score, their number is bounded, and the table's every step leads into the table.
// Errors: InvalidArgument naming the file and what is wrong. Threads: a pure function.
#ifndef NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_FILE_H_
#define NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct SentencePieceFile {
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  size_t pieces = 0;
  bool adds_space = true;      // in front of a text
  bool removes_spaces = true;  // all but one between words
};

absl::StatusOr<SentencePieceFile> CheckSentencePiece(absl::string_view bytes,
                                                     const std::string& file);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_FILE_H_

// Tokenizer: text to token ids and back, as SentencePiece's BPE models do it.
//
//   NPUBANK_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Create(vocabulary, /*bos_token=*/1));
//   std::vector<int64_t> ids = tokenizer.Encode("Once upon a time");   // BOS first
//   std::string text = tokenizer.Decode(ids);                          // "Once upon a time"
//
// Encoding: BOS; then, for text that is not empty, a space in front of it; what the vocabulary says of
// these and of an EOS at the end is obeyed, but that text without any token is BOS. Each UTF-8 character
// becomes the piece of that text, or, where there is none, the byte pieces "<0x00>".."<0xFF>" of
// its bytes (for a missing byte piece, token 0). Then the adjacent pair whose joined text is the
// piece of the highest score is merged, the leftmost of equals, until none is left. Invalid UTF-8
// goes byte by byte. Decoding: the pieces' text; byte pieces as their byte; BOS and control pieces
// as nothing; the first piece of a text without the space that encoding put before it.
//
// Cost: Encode is O(n log n) in the text's length. Threads: immutable after Create.
// Errors: InvalidArgument for a vocabulary without pieces or a BOS outside of it.
#ifndef NPUBANK_TOOLS_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/formats/model/vocabulary.h"

namespace npubank {

class Tokenizer {
 public:
  static constexpr int32_t kNone = -1;  // no token

  static absl::StatusOr<Tokenizer> Create(Vocabulary vocabulary, int64_t bos_token);

  std::vector<int64_t> Encode(absl::string_view text) const;
  std::string Decode(absl::Span<const int64_t> ids) const;
  // One token's text, for printing as it is generated; `previous` is the token before it, or kNone. May be
  // part of a UTF-8 character. Empty for an id outside of the vocabulary.
  std::string DecodeOne(int64_t previous, int64_t token) const;

 private:
  Tokenizer() = default;
  // The id of the piece with this text, or kNone.
  int32_t Find(const std::string& text) const;
  struct Symbol;
  std::vector<Symbol> SplitCharacters(absl::string_view text) const;
  void Merge(absl::string_view text, std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  int64_t bos_token_ = 1;
  std::unordered_map<std::string, int32_t> ids_;  // of the pieces that text may become
  std::array<int32_t, 256> byte_ids_ = {};        // kNone where there is no such piece
  std::vector<int16_t> byte_of_;                  // by id: the byte it stands for, or kNone
  size_t longest_piece_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZER_H_

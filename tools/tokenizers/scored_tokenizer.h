// ScoredTokenizer: text to tokens by the scores of pieces, as SentencePiece's BPE models do it.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, ScoredTokenizer::Create(vocabulary));
//
// Text is cut at control and user-defined pieces; each stretch between them gets a space in front, and a space is
// written "▁". Of its UTF-8 characters, the adjacent pair whose joined text is the piece of the highest score is
// merged, the leftmost of equals, until none is left. What is no piece then is the byte pieces "<0x00>".."<0xFF>" of
// its bytes (for a missing byte piece, the unknown one). Invalid UTF-8 goes byte by byte.
//
// Cost: Encode is O(n log n) in the text's length. Threads: immutable after Create.
// Errors: InvalidArgument for a vocabulary without pieces, or a BOS or EOS outside of it.
#ifndef NPUBANK_TOOLS_TOKENIZERS_SCORED_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_SCORED_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/added_tokens.h"
#include "npubank/tools/tokenizers/tokenizer.h"
#include "npubank/tools/tokenizers/vocabulary.h"

namespace npubank {

class ScoredTokenizer final : public Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(Vocabulary vocabulary);

  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              SpecialText special) const override;
  std::optional<std::string> BytesOf(int32_t id, bool first) const override;
  int64_t size() const override { return static_cast<int64_t>(vocabulary_.pieces.size()); }

 private:
  ScoredTokenizer(Vocabulary vocabulary, AddedTokens added);
  void EncodeStretch(absl::string_view text, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  AddedTokens added_;
  std::unordered_map<std::string, int32_t> ids_;  // of the pieces that text may become
  std::array<int32_t, 256> byte_ids_ = {};        // what a byte becomes that is in no piece
  std::vector<bool> is_byte_;                     // by id
  size_t longest_piece_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_SCORED_TOKENIZER_H_

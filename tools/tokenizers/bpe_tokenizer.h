// BpeTokenizer: a tokenizer of byte pair encoding by its parts, one after the other.
//
//   BpeTokenizer::Parts parts = ...;                       // from a tokenizer.json, or a GGUF file
//   std::unique_ptr<Tokenizer> tokenizer = BpeTokenizer::Create(std::move(parts));
//
// A text, made valid UTF-8, is cut at the added tokens; what lies between is normalised, cut at the added tokens
// that are normalised, cut into words, and each word made tokens of. Threads: immutable.
#ifndef NPUBANK_TOOLS_TOKENIZERS_BPE_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_BPE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "npubank/tools/tokenizers/added_tokens.h"
#include "npubank/tools/tokenizers/bpe_model.h"
#include "npubank/tools/tokenizers/json/normalizer.h"
#include "npubank/tools/tokenizers/json/post_processor.h"
#include "npubank/tools/tokenizers/json/pre_tokenizer.h"
#include "npubank/tools/tokenizers/json/token_decoder.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

class BpeTokenizer final : public Tokenizer {
 public:
  struct Parts {
    std::vector<AddedToken> added;
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    BpeModel model;
    PostProcessor around;
    TokenDecoder decoder;
  };
  // InvalidArgument for added tokens or ids around a text that there are not.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(Parts parts);

  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              SpecialText special) const override;
  std::optional<std::string> BytesOf(int32_t id, bool first) const override;
  int64_t size() const override { return size_; }

 private:
  BpeTokenizer(Parts parts, AddedTokens raw, AddedTokens normalized)
      : parts_(std::move(parts)), raw_(std::move(raw)), normalized_(std::move(normalized)) {}
  absl::Status EncodeStretch(std::string text, bool first, SpecialText special,
                             std::vector<int32_t>& ids) const;

  const Parts parts_;
  const AddedTokens raw_, normalized_;
  std::unordered_map<int32_t, size_t> added_by_id_;
  int64_t size_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_BPE_TOKENIZER_H_

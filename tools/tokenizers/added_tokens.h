// AddedTokens: tokens that are found in a text as they are spelled, before anything else looks at it.
//
//   NPUBANK_ASSIGN_OR_RETURN(const AddedTokens added, AddedTokens::Create({{.id = 2, .text = "</s>", .special = true}}));
//   added.Cut("a</s>b", SpecialText::kTokens);   // "a", the token 2, "b"
//
// Of two tokens that begin at one place the longer counts. Threads: immutable.
// Cost: O(n k) for k different lengths of tokens that begin with one byte.
// Errors: InvalidArgument for a token without text, or with more than kMaxBytes.
#ifndef NPUBANK_TOOLS_TOKENIZERS_ADDED_TOKENS_H_
#define NPUBANK_TOOLS_TOKENIZERS_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;      // not text: left out of decoding
  bool single_word = false;  // only where no word goes on before or behind it
  bool lstrip = false;       // takes the whitespace before it
  bool rstrip = false;       // and behind it
  bool normalized = false;   // is found in the normalised text
};

class AddedTokens {
 public:
  static constexpr size_t kMaxBytes = 1024;

  // A stretch of the text: a token, or text between tokens.
  struct Stretch {
    size_t begin;
    size_t end;
    std::optional<int32_t> id;
  };

  static absl::StatusOr<AddedTokens> Create(std::vector<AddedToken> tokens);

  // All of the text in order; no stretch of text is empty.
  std::vector<Stretch> Cut(absl::string_view text, SpecialText special) const;

 private:
  AddedTokens() = default;
  const AddedToken* Longest(absl::string_view text, SpecialText special) const;
  static bool StandsAlone(absl::string_view text, size_t begin, size_t end);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_text_;
  // The lengths of the tokens that begin with a byte, the longest first.
  std::array<std::vector<size_t>, 256> lengths_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_ADDED_TOKENS_H_

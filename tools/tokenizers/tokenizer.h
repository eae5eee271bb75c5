// Tokenizer: text to token ids and back, as a model was trained with, whatever file says how.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer("model", {}));
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->Encode("Once upon a time"));   // BOS first
//   std::string text = tokenizer->Decode(ids);                                    // "Once upon a time"
//
//   TextStream stream(*tokenizer);                  // as ids come: no broken character in between
//   for (int32_t id : ids) std::cout << stream.Push(id);
//   std::cout << stream.Finish();
//
// Encoding puts around the text what the model's tokenizer puts there (BOS, perhaps EOS). Decoding leaves out
// what is special, and the space that encoding put before the text. Bytes that make no character become U+FFFD.
//
// Text that spells a special token, "<|im_end|>", becomes that token, as in a chat's template, or with
// SpecialText::kPlain is taken as the letters that it is, as what comes from somebody else should be.
//
// Ownership: whoever opened it; it holds no file. A TextStream must not outlive its tokenizer.
// Threads: tokenizers are immutable; a TextStream is for one thread at a time.
// Errors: of Encode ResourceExhausted where a pattern's limit (text/regex.h) or the limit on a normalised text
// does not suffice, InvalidArgument where the vocabulary has nothing for a character.
// Cost: Encode is O(n log n) but for patterns that search back.
#ifndef NPUBANK_TOOLS_TOKENIZERS_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace npubank {

enum class SpecialText { kTokens, kPlain };

class Tokenizer {
 public:
  static constexpr size_t kMaxIds = size_t{1} << 20;

  virtual ~Tokenizer() = default;

  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, SpecialText special = SpecialText::kTokens) const = 0;

  // The bytes of one token, which may be part of a character; `first`: no text was before it. Nothing for a
  // special token and for an id that there is not.
  virtual std::optional<std::string> BytesOf(int32_t id, bool first) const = 0;

  // One more than the highest id.
  virtual int64_t size() const = 0;

  std::string Decode(absl::Span<const int32_t> ids) const;
};

// The text of ids that come one by one, in whole characters.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // What is complete now; may be empty.
  std::string Push(int32_t id);
  // What was begun and will not be completed.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool first_ = true;
  std::string begun_;  // of a character
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_TOKENIZER_H_

// PreTokenizer: cuts a normalised text into the words that a model makes tokens of, one by one.
//
//   NPUBANK_ASSIGN_OR_RETURN(const PreTokenizer words, PreTokenizer::Create(json, "tokenizer.json: pre_tokenizer"));
//   NPUBANK_RETURN_IF_ERROR(words.Apply(pieces));   // pieces: the text as one
//
// Types: ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, and Sequence of them.
// Other files say the same in other words: the steps can be added one by one. Threads: immutable once made.
// Errors: Unimplemented naming another type or key, InvalidArgument for what is wrong with one of these; of Apply
// those of Regex, and ResourceExhausted for pieces that would grow beyond kMaxBytes.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_PRE_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_PRE_TOKENIZER_H_

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/json/pattern.h"

namespace npubank {

struct TextPiece {
  std::string text;
  bool first = false;  // nothing of the whole text is before it
};

class PreTokenizer {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 26;

  // What becomes of a match: a piece, nothing, part of the piece before it or behind it; or a piece with all
  // matches that follow at once.
  enum class Matches { kIsolated, kRemoved, kWithPrevious, kWithNext, kContiguous };

  // `json` may be null: a text stays one piece then.
  static absl::StatusOr<PreTokenizer> Create(const nlohmann::json& json, const std::string& where);

  // `inverted`: what lies between the matches is what counts as one.
  void AddSplit(Pattern pattern, Matches matches, bool inverted = false);
  absl::Status AddSplit(absl::string_view regex, Matches matches, bool inverted = false);
  void AddByteText();  // spells bytes as characters (byte_text.h)

  absl::Status Apply(std::vector<TextPiece>& pieces) const;

 private:
  using Step = std::function<absl::Status(std::vector<TextPiece>& pieces)>;
  absl::Status Append(const nlohmann::json& json, const std::string& where);
  absl::Status AppendByteLevel(Part& part);
  absl::Status AppendMetaspace(Part& part);
  absl::Status AppendSplit(Part& part);
  void AddPrefix(const std::string& prefix, bool first_only);

  std::vector<Step> steps_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_PRE_TOKENIZER_H_

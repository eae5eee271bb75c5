// Vocabulary: the pieces that token ids stand for, with their merge scores, and what a text gets around it.
//
//   NPUBANK_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary("model/tokens.json"));
//   vocabulary.pieces[403].text;   // " Once"
//
// tokens.json is this project's own, for its tests: a list, one object per id in order:
// [{"piece": " the", "score": -6.0}, ...]. A piece "<0x0A>" stands for the raw byte 0x0A; a space is a space.
// Unknown fields are ignored.
// Errors: NotFound when the file is missing; InvalidArgument naming the file and the id for an
// entry that is not an object with a string and a finite number, or for too many entries. Threads:
// values and pure functions.
#ifndef NPUBANK_TOOLS_TOKENIZERS_VOCABULARY_H_
#define NPUBANK_TOOLS_TOKENIZERS_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct Vocabulary {
  static constexpr size_t kMaxPieces = size_t{1} << 20;

  enum class Kind {
    kText,
    kControl,      // never part of text: <s> and its like
    kUserDefined,  // found in a text before anything else, and part of it
    kUnknown,      // in place of what no piece stands for
    kUnused,       // never comes from text
  };
  struct Piece {
    std::string text;
    float score = 0;  // of two merges the one with the higher score comes first
    Kind kind = Kind::kText;
  };
  std::vector<Piece> pieces;     // by token id
  std::optional<int32_t> bos;    // before a text, where it gets one
  std::optional<int32_t> eos;    // after a text, where it gets one
  bool add_space_prefix = true;  // before a text that is not empty
};

// `file` appears in messages only.
absl::StatusOr<Vocabulary> ParseVocabulary(absl::string_view json, const std::string& file);
absl::StatusOr<Vocabulary> ReadVocabulary(const std::string& path);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_VOCABULARY_H_

// BpeModel: a word to token ids by a vocabulary and a list of merges, as GPT-2's and Llama's tokenizers do it.
//
//   BpeModel::Parts parts = {.tokens = {{"a", 0}, {"b", 1}, {"ab", 2}}, .merges = {{"a", "b"}}};
//   NPUBANK_ASSIGN_OR_RETURN(const BpeModel model, BpeModel::Create(parts));
//   NPUBANK_RETURN_IF_ERROR(model.Encode("ab", ids));   // 2
//
// A word is cut into characters; the pair of neighbours that comes first in the list becomes one, until no pair
// is in the list. A character without a token is its bytes' tokens "<0x00>" to "<0xFF>" with byte_fallback, else
// the unknown token. Threads: immutable. Cost: O(n log n) in the length of a word.
// Errors: of Create InvalidArgument for an id that is out of range or twice, and for a merge of or into what is
// no token, naming it; of Encode InvalidArgument for a character without any token.
#ifndef NPUBANK_TOOLS_TOKENIZERS_BPE_MODEL_H_
#define NPUBANK_TOOLS_TOKENIZERS_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/merge_pairs.h"

namespace npubank {

class BpeModel {
 public:
  struct Parts {
    std::unordered_map<std::string, int32_t> tokens;
    std::vector<std::pair<std::string, std::string>> merges;  // the first one first
    std::optional<std::string> unknown;                       // the token of what has none
    bool fuse_unknown = false;                                // several in a row are one
    bool byte_fallback = false;
    bool whole_words_first = false;  // a word that is a token is not taken apart
  };
  static absl::StatusOr<BpeModel> Create(Parts parts);

  // Appends to `ids`.
  absl::Status Encode(absl::string_view word, std::vector<int32_t>& ids) const;

  // By id; empty for an id between others that has none.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Ranked {
    double rank;
    int32_t id;
  };

  BpeModel() = default;
  std::optional<int32_t> Find(absl::string_view text) const;
  absl::Status AddMerge(const std::string& left, const std::string& right, double rank);
  absl::Status AddChar(absl::string_view word, size_t begin, size_t length,
                       std::vector<Symbol>& symbols) const;
  static uint64_t PairKey(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::string> texts_;
  std::unordered_map<uint64_t, Ranked> merges_;  // by the ids of both
  std::optional<int32_t> unknown_;
  bool fuse_unknown_ = false;
  bool whole_words_first_ = false;
  std::optional<std::array<int32_t, 256>> byte_ids_;  // with byte_fallback; -1: no such token
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_BPE_MODEL_H_

#include "npubank/tools/tokenizers/scored_tokenizer.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/tokenizers/byte_token.h"
#include "npubank/tools/tokenizers/merge_pairs.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

constexpr int32_t kNoPiece = -1;
constexpr char kSpace[] = "\u2581";

std::string WithVisibleSpaces(absl::string_view text) {
  return absl::StrReplaceAll(text, {{" ", kSpace}});
}

std::vector<AddedToken> FoundAsSpelled(const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const Vocabulary::Piece& piece = vocabulary.pieces[id];
    const bool defined = piece.kind == Vocabulary::Kind::kUserDefined;
    // What is unknown has a name as well, which can be typed where control pieces can.
    const bool control =
        piece.kind == Vocabulary::Kind::kControl || piece.kind == Vocabulary::Kind::kUnknown;
    const bool possible = !piece.text.empty() && piece.text.size() <= AddedTokens::kMaxBytes;
    if ((defined || control) && possible)
      added.push_back({.id = static_cast<int32_t>(id),
                       .text = WithVisibleSpaces(piece.text),
                       .special = control});
  }
  return added;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ScoredTokenizer::Create(Vocabulary vocabulary) {
  const size_t count = vocabulary.pieces.size();
  if (count == 0 || count > kMaxIds)
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", count, " pieces; possible are 1 to ", kMaxIds));
  for (const auto& [what, id] :
       {std::pair{"BOS", vocabulary.bos}, std::pair{"EOS", vocabulary.eos}})
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count))
      return absl::InvalidArgumentError(
          absl::StrCat(what, " token ", *id, " is not in the vocabulary of ", count, " pieces"));
  NPUBANK_ASSIGN_OR_RETURN(AddedTokens added, AddedTokens::Create(FoundAsSpelled(vocabulary)));
  return std::unique_ptr<Tokenizer>(new ScoredTokenizer(std::move(vocabulary), std::move(added)));
}

ScoredTokenizer::ScoredTokenizer(Vocabulary vocabulary, AddedTokens added)
    : vocabulary_(std::move(vocabulary)), added_(std::move(added)) {
  int32_t unknown = 0;
  std::array<int32_t, 256> bytes;
  bytes.fill(-1);
  is_byte_.resize(vocabulary_.pieces.size());
  for (size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
    const Vocabulary::Piece& piece = vocabulary_.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (piece.kind == Vocabulary::Kind::kUnknown) unknown = id;
    if (piece.kind != Vocabulary::Kind::kText || id == vocabulary_.bos) continue;
    const int byte = ByteOfToken(piece.text);
    is_byte_[i] = byte >= 0;
    if (byte >= 0 && bytes[byte] < 0) bytes[byte] = id;
    if (byte >= 0) continue;
    const std::string text = WithVisibleSpaces(piece.text);
    ids_.try_emplace(text, id);
    longest_piece_ = std::max(longest_piece_, text.size());
  }
  for (size_t byte = 0; byte < bytes.size(); ++byte)
    byte_ids_[byte] = bytes[byte] < 0 ? unknown : bytes[byte];
}

void ScoredTokenizer::EncodeStretch(absl::string_view text, std::vector<int32_t>& ids) const {
  const auto find = [&](size_t begin, size_t length) {
    const auto at = ids_.find(std::string(text.substr(begin, length)));
    return at == ids_.end() ? kNoPiece : at->second;
  };
  std::vector<Symbol> symbols;
  for (size_t begin = 0; begin < text.size();) {
    const size_t length = FirstChar(text.substr(begin)).length;
    symbols.push_back({find(begin, length), begin, length});
    begin += length;
  }
  MergePairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const size_t length = left.length + right.length;
    const int32_t id = length > longest_piece_ ? kNoPiece : find(left.begin, length);
    if (id == kNoPiece) return std::nullopt;
    return Merge{-static_cast<double>(vocabulary_.pieces[id].score), id};
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.id != kNoPiece) {
      ids.push_back(symbol.id);
      continue;
    }
    for (const char c : text.substr(symbol.begin, symbol.length))
      ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  }
}

absl::StatusOr<std::vector<int32_t>> ScoredTokenizer::Encode(absl::string_view text,
                                                             SpecialText special) const {
  std::vector<int32_t> ids;
  if (vocabulary_.bos) ids.push_back(*vocabulary_.bos);
  for (const AddedTokens::Stretch& each : added_.Cut(text, special)) {
    if (each.id) {
      ids.push_back(*each.id);
    } else {
      const absl::string_view stretch = text.substr(each.begin, each.end - each.begin);
      EncodeStretch(
          WithVisibleSpaces(absl::StrCat(vocabulary_.add_space_prefix ? " " : "", stretch)), ids);
    }
  }
  if (vocabulary_.eos) ids.push_back(*vocabulary_.eos);
  return ids;
}

std::optional<std::string> ScoredTokenizer::BytesOf(int32_t id, bool first) const {
  if (id < 0 || id >= size()) return std::nullopt;
  const Vocabulary::Piece& piece = vocabulary_.pieces[id];
  const bool text =
      piece.kind == Vocabulary::Kind::kText || piece.kind == Vocabulary::Kind::kUserDefined;
  if (!text || id == vocabulary_.bos || id == vocabulary_.eos) return std::nullopt;
  if (is_byte_[id]) return std::string(1, static_cast<char>(ByteOfToken(piece.text)));
  std::string bytes = absl::StrReplaceAll(piece.text, {{kSpace, " "}});
  if (first && vocabulary_.add_space_prefix && absl::StartsWith(bytes, " ")) bytes.erase(0, 1);
  return bytes;
}

}  // namespace npubank

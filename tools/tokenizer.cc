#include "npubank/tools/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

// The byte that "<0xNN>" stands for, or -1.
int ByteOf(absl::string_view piece) {
  int byte = 0;
  if (piece.size() != 6 || !absl::StartsWith(piece, "<0x") || piece[5] != '>' ||
      !absl::ascii_isxdigit(static_cast<unsigned char>(piece[3])) ||
      !absl::SimpleHexAtoi(piece.substr(3, 2), &byte)) {
    return -1;
  }
  return byte;
}

// Bytes of the UTF-8 character at the front of `text`; 1 where it is not valid UTF-8.
size_t CharacterLength(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length < 2 || lead >= 0xF8 || length > text.size()) return 1;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 1;
  }
  return length;
}

}  // namespace

// A stretch of the text that is one token, in a doubly linked list over a vector.
struct Tokenizer::Symbol {
  int32_t id;
  size_t begin;
  size_t length;  // 0 once merged into the symbol before it
  ptrdiff_t previous;
  ptrdiff_t next;  // -1 at the end
  bool mergeable;  // byte pieces are not: their text is not what they stand for
};

absl::StatusOr<Tokenizer> Tokenizer::Create(Vocabulary vocabulary, int64_t bos_token) {
  const auto count = static_cast<int64_t>(vocabulary.pieces.size());
  if (bos_token < 0 || bos_token >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("BOS token ", bos_token, " is not in the vocabulary of ", count, " pieces"));
  }
  Tokenizer tokenizer;
  tokenizer.bos_token_ = bos_token;
  tokenizer.byte_ids_.fill(kNone);
  tokenizer.byte_of_.assign(vocabulary.pieces.size(), kNone);
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const Vocabulary::Piece& piece = vocabulary.pieces[id];
    if (piece.control || static_cast<int64_t>(id) == bos_token) continue;
    if (const int byte = ByteOf(piece.text); byte >= 0) {
      tokenizer.byte_of_[id] = static_cast<int16_t>(byte);
      if (tokenizer.byte_ids_[byte] == kNone) tokenizer.byte_ids_[byte] = static_cast<int32_t>(id);
      continue;
    }
    tokenizer.ids_.try_emplace(piece.text, static_cast<int32_t>(id));
    tokenizer.longest_piece_ = std::max(tokenizer.longest_piece_, piece.text.size());
  }
  tokenizer.vocabulary_ = std::move(vocabulary);
  return tokenizer;
}

int32_t Tokenizer::Find(const std::string& text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? kNone : at->second;
}

std::vector<Tokenizer::Symbol> Tokenizer::SplitCharacters(absl::string_view text) const {
  std::vector<Symbol> symbols;
  auto add = [&](int32_t id, size_t begin, size_t length, bool mergeable) {
    const auto here = static_cast<ptrdiff_t>(symbols.size());
    symbols.push_back({id, begin, length, here - 1, here + 1, mergeable});
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t length = CharacterLength(text.substr(begin));
    const int32_t id = Find(std::string(text.substr(begin, length)));
    if (id != kNone) {
      add(id, begin, length, true);
    } else {
      for (size_t i = begin; i < begin + length; ++i) {
        const int32_t byte = byte_ids_[static_cast<unsigned char>(text[i])];
        add(byte == kNone ? 0 : byte, i, 1, false);
      }
    }
    begin += length;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

void Tokenizer::Merge(absl::string_view text, std::vector<Symbol>& symbols) const {
  struct Candidate {
    float score;
    ptrdiff_t left;
    size_t length;  // of the joined text; tells whether the pair is still what it was
    int32_t id;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  std::priority_queue<Candidate> candidates;
  auto consider = [&](ptrdiff_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const Symbol& a = symbols[left];
    const Symbol& b = symbols[a.next];
    const size_t length = a.length + b.length;
    if (!a.mergeable || !b.mergeable || length > longest_piece_) return;
    const int32_t id = Find(std::string(text.substr(a.begin, length)));
    if (id != kNone) candidates.push({vocabulary_.pieces[id].score, left, length, id});
  };
  for (size_t i = 0; i < symbols.size(); ++i) consider(static_cast<ptrdiff_t>(i));

  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& a = symbols[best.left];
    if (a.length == 0 || a.next < 0 || a.length + symbols[a.next].length != best.length) continue;
    symbols[a.next].length = 0;
    a.next = symbols[a.next].next;
    if (a.next >= 0) symbols[a.next].previous = best.left;
    a.length = best.length;
    a.id = best.id;
    consider(a.previous);
    consider(best.left);
  }
}

std::vector<int64_t> Tokenizer::Encode(absl::string_view text) const {
  std::vector<int64_t> ids;
  if (vocabulary_.add_bos) ids.push_back(bos_token_);
  if (!text.empty()) {
    const std::string prefixed = absl::StrCat(vocabulary_.add_space_prefix ? " " : "", text);
    std::vector<Symbol> symbols = SplitCharacters(prefixed);
    Merge(prefixed, symbols);
    for (ptrdiff_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
  }
  if (vocabulary_.eos) ids.push_back(*vocabulary_.eos);
  if (ids.empty()) ids.push_back(bos_token_);  // a model has to begin with something
  return ids;
}

std::string Tokenizer::DecodeOne(int64_t previous, int64_t token) const {
  if (token < 0 || token >= static_cast<int64_t>(vocabulary_.pieces.size())) return "";
  const Vocabulary::Piece& piece = vocabulary_.pieces[token];
  if (token == bos_token_ || piece.control) return "";
  if (byte_of_[token] != kNone) return std::string(1, static_cast<char>(byte_of_[token]));
  const bool first = previous == (vocabulary_.add_bos ? bos_token_ : kNone);
  const bool strip = vocabulary_.add_space_prefix && first && absl::StartsWith(piece.text, " ");
  return piece.text.substr(strip ? 1 : 0);
}

std::string Tokenizer::Decode(absl::Span<const int64_t> ids) const {
  std::string text;
  int64_t previous = kNone;
  for (const int64_t id : ids) {
    text += DecodeOne(previous, id);
    previous = id;
  }
  return text;
}

}  // namespace npubank

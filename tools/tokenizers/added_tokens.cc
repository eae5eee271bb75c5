#include "npubank/tools/tokenizers/added_tokens.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/tools/tokenizers/text/unicode.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
absl::StatusOr<AddedTokens> AddedTokens::Create(std::vector<AddedToken> tokens) {
  AddedTokens added;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text.empty() || text.size() > kMaxBytes)
      return absl::InvalidArgumentError(absl::StrCat("added token ", tokens[i].id, " has ",
                                                     text.size(), " bytes; possible are 1 to ",
                                                     kMaxBytes));
    if (!added.by_text_.try_emplace(text, i).second) continue;  // the first one counts
    added.lengths_[static_cast<unsigned char>(text[0])].push_back(text.size());
  }
  for (std::vector<size_t>& lengths : added.lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
  added.tokens_ = std::move(tokens);
  return added;
}

const AddedToken* AddedTokens::Longest(absl::string_view text, SpecialText special) const {
  for (const size_t length : lengths_[static_cast<unsigned char>(text[0])]) {
    if (length > text.size()) continue;
    const auto at = by_text_.find(std::string(text.substr(0, length)));
    if (at == by_text_.end()) continue;
    const AddedToken& token = tokens_[at->second];
    if (special == SpecialText::kTokens || !token.special) return &token;
  }
  return nullptr;
}

bool AddedTokens::StandsAlone(absl::string_view text, size_t begin, size_t end) {
  const bool before = begin > 0 && IsWordChar(LastChar(text.substr(0, begin)).code);
  const bool behind = end < text.size() && IsWordChar(FirstChar(text.substr(end)).code);
  return !before && !behind;
}

std::vector<AddedTokens::Stretch> AddedTokens::Cut(absl::string_view text,
                                                   SpecialText special) const {
  std::vector<Stretch> stretches;
  size_t done = 0;  // all before it is in a stretch
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = Longest(text.substr(at), special);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->text.size();
    at = end;
    if (token->single_word && !StandsAlone(text, begin, end)) continue;
    if (token->lstrip) begin = std::max(done, begin - TrailingSpace(text.substr(0, begin)));
    if (token->rstrip) end += LeadingSpace(text.substr(end));
    if (done < begin) stretches.push_back({done, begin, std::nullopt});
    stretches.push_back({begin, end, token->id});
    at = done = end;
  }
  if (done < text.size()) stretches.push_back({done, text.size(), std::nullopt});
  return stretches;
}

}  // namespace npubank

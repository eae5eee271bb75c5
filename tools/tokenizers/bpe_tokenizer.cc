#include "npubank/tools/tokenizers/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Create(Parts parts) {
  std::vector<AddedToken> raw, normalized;
  size_t size = parts.model.texts().size();
  for (const AddedToken& token : parts.added) {
    if (token.id < 0 || static_cast<size_t>(token.id) >= kMaxIds)
      return absl::InvalidArgumentError(
          absl::StrCat("added token ", token.id, ": possible ids are 0 to ", kMaxIds - 1));
    size = std::max(size, static_cast<size_t>(token.id) + 1);
    (token.normalized ? normalized : raw).push_back(token);
  }
  for (const std::vector<int32_t>* ids : {&parts.around.before, &parts.around.behind})
    for (const int32_t id : *ids)
      if (id < 0 || static_cast<size_t>(id) >= size)
        return absl::InvalidArgumentError(absl::StrCat(
            "token ", id, ", which texts begin or end with, is not in the vocabulary of ", size));
  // What is sought in the normalised text is sought as it looks there.
  for (AddedToken& token : normalized) {
    token.text = ValidUtf8(token.text);
    NPUBANK_RETURN_IF_ERROR(parts.normalizer.Apply(token.text));
  }
  NPUBANK_ASSIGN_OR_RETURN(AddedTokens first, AddedTokens::Create(std::move(raw)));
  NPUBANK_ASSIGN_OR_RETURN(AddedTokens second, AddedTokens::Create(std::move(normalized)));
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(parts), std::move(first), std::move(second)));
  for (size_t i = 0; i < tokenizer->parts_.added.size(); ++i)
    tokenizer->added_by_id_.try_emplace(tokenizer->parts_.added[i].id, i);
  tokenizer->size_ = static_cast<int64_t>(size);
  return tokenizer;
}

absl::Status BpeTokenizer::EncodeStretch(std::string text, bool first, SpecialText special,
                                         std::vector<int32_t>& ids) const {
  NPUBANK_RETURN_IF_ERROR(parts_.normalizer.Apply(text));
  for (const AddedTokens::Stretch& each : normalized_.Cut(text, special)) {
    if (each.id) {
      ids.push_back(*each.id);
      continue;
    }
    std::vector<TextPiece> words = {
        {text.substr(each.begin, each.end - each.begin), first && each.begin == 0}};
    NPUBANK_RETURN_IF_ERROR(parts_.pre_tokenizer.Apply(words));
    for (const TextPiece& word : words)
      NPUBANK_RETURN_IF_ERROR(parts_.model.Encode(word.text, ids));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> BpeTokenizer::Encode(absl::string_view text,
                                                          SpecialText special) const {
  std::vector<int32_t> ids = parts_.around.before;
  const std::string valid = ValidUtf8(text);
  for (const AddedTokens::Stretch& each : raw_.Cut(valid, special)) {
    if (each.id) {
      ids.push_back(*each.id);
    } else {
      NPUBANK_RETURN_IF_ERROR(EncodeStretch(valid.substr(each.begin, each.end - each.begin),
                                            each.begin == 0, special, ids));
    }
  }
  ids.insert(ids.end(), parts_.around.behind.begin(), parts_.around.behind.end());
  return ids;
}

std::optional<std::string> BpeTokenizer::BytesOf(int32_t id, bool first) const {
  const auto added = added_by_id_.find(id);
  if (added != added_by_id_.end()) {
    const AddedToken& token = parts_.added[added->second];
    if (token.special) return std::nullopt;
    return parts_.decoder.BytesOf(token.text, first);
  }
  const std::vector<std::string>& texts = parts_.model.texts();
  if (id < 0 || static_cast<size_t>(id) >= texts.size()) return std::nullopt;
  return parts_.decoder.BytesOf(texts[id], first);
}

}  // namespace npubank

#include "npubank/tools/tokenizers/bpe_model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tools/tokenizers/text/utf8.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {
namespace {

absl::StatusOr<std::vector<std::string>> TextsById(
    const std::unordered_map<std::string, int32_t>& tokens) {
  std::vector<std::string> texts;
  std::vector<bool> taken;
  for (const auto& [text, id] : tokens) {
    if (id < 0 || static_cast<size_t>(id) >= Tokenizer::kMaxIds)
      return absl::InvalidArgumentError(absl::StrCat("token ", Quote(text), " has the id ", id,
                                                     "; possible are 0 to ",
                                                     Tokenizer::kMaxIds - 1));
    if (static_cast<size_t>(id) >= texts.size()) {
      texts.resize(static_cast<size_t>(id) + 1);
      taken.resize(texts.size());
    }
    if (taken[id])
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", Quote(texts[id]), " and ", Quote(text), " have one id, ", id));
    taken[id] = true;
    texts[id] = text;
  }
  return texts;
}

}  // namespace

absl::StatusOr<BpeModel> BpeModel::Create(Parts parts) {
  BpeModel model;
  NPUBANK_ASSIGN_OR_RETURN(model.texts_, TextsById(parts.tokens));
  model.ids_ = std::move(parts.tokens);
  double rank = 0;
  model.merges_.reserve(parts.merges.size());
  for (const auto& [left, right] : parts.merges)
    NPUBANK_RETURN_IF_ERROR(model.AddMerge(left, right, rank++));
  model.fuse_unknown_ = parts.fuse_unknown;
  model.whole_words_first_ = parts.whole_words_first;
  if (parts.unknown) {
    model.unknown_ = model.Find(*parts.unknown);
    if (!model.unknown_)
      return absl::InvalidArgumentError(
          absl::StrCat("the unknown token ", Quote(*parts.unknown), " is not in the vocabulary"));
  }
  if (parts.byte_fallback) {
    model.byte_ids_.emplace();
    for (int byte = 0; byte < 256; ++byte)
      (*model.byte_ids_)[byte] = model.Find(absl::StrFormat("<0x%02X>", byte)).value_or(-1);
  }
  return model;
}

std::optional<int32_t> BpeModel::Find(absl::string_view text) const {
  const auto at = ids_.find(std::string(text));
  if (at == ids_.end()) return std::nullopt;
  return at->second;
}

absl::Status BpeModel::AddMerge(const std::string& left, const std::string& right, double rank) {
  const std::optional<int32_t> a = Find(left), b = Find(right), ab = Find(left + right);
  if (!a || !b || !ab) {
    const std::string missing = !a ? left : !b ? right : left + right;
    return absl::InvalidArgumentError(absl::StrCat("merge ", static_cast<uint64_t>(rank), " of ",
                                                   Quote(left), " and ", Quote(right),
                                                   ": the vocabulary has no ", Quote(missing)));
  }
  merges_.insert_or_assign(PairKey(*a, *b), Ranked{rank, *ab});  // of two the later, as others do
  return absl::OkStatus();
}

absl::Status BpeModel::AddChar(absl::string_view word, size_t begin, size_t length,
                               std::vector<Symbol>& symbols) const {
  const absl::string_view text = word.substr(begin, length);
  if (const std::optional<int32_t> id = Find(text)) {
    symbols.push_back({*id, begin, length});
    return absl::OkStatus();
  }
  const auto byte_id = [&](char c) { return (*byte_ids_)[static_cast<unsigned char>(c)]; };
  bool bytes = byte_ids_.has_value();
  for (const char c : text) bytes = bytes && byte_id(c) >= 0;
  if (bytes) {
    for (size_t i = 0; i < length; ++i) symbols.push_back({byte_id(text[i]), begin + i, 1});
    return absl::OkStatus();
  }
  if (!unknown_)
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary has no token for ", Quote(text),
                                                   " and none for what is unknown"));
  const bool goes_on = !symbols.empty() && symbols.back().id == *unknown_;
  if (fuse_unknown_ && goes_on) {
    symbols.back().length += length;
  } else {
    symbols.push_back({*unknown_, begin, length});
  }
  return absl::OkStatus();
}

absl::Status BpeModel::Encode(absl::string_view word, std::vector<int32_t>& ids) const {
  if (whole_words_first_) {
    if (const std::optional<int32_t> id = Find(word)) {
      ids.push_back(*id);
      return absl::OkStatus();
    }
  }
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < word.size();) {
    const size_t length = FirstChar(word.substr(at)).length;
    NPUBANK_RETURN_IF_ERROR(AddChar(word, at, length, symbols));
    at += length;
  }
  MergePairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const auto at = merges_.find(PairKey(left.id, right.id));
    if (at == merges_.end()) return std::nullopt;
    return Merge{at->second.rank, at->second.id};
  });
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
  return absl::OkStatus();
}

}  // namespace npubank

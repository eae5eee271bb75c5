#include "npubank/tools/tokenizers/gguf/gguf_tokenizer.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"
#include "npubank/tools/tokenizers/bpe_tokenizer.h"
#include "npubank/tools/tokenizers/gguf/gguf_words.h"
#include "npubank/tools/tokenizers/scored_tokenizer.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

using enum KnownName::Kind;

constexpr KnownName kBothModels[] = {
    {"tokenizer.ggml.model", kUsed},
    {"tokenizer.ggml.tokens", kUsed},
    {"tokenizer.ggml.token_type", kUsed},
    {"tokenizer.ggml.bos_token_id", kUsed},
    {"tokenizer.ggml.eos_token_id", kUsed},
    {"tokenizer.ggml.add_bos_token", kUsed},
    {"tokenizer.ggml.add_eos_token", kUsed},
    {"tokenizer.ggml.add_space_prefix", kUsed},
    {"tokenizer.ggml.add_sep_token", kRefused, "text with separators is not supported", "[false]"},
    {"tokenizer.ggml.remove_extra_whitespaces", kRefused, "spaces are taken as they are",
     "[false]"},
    {"tokenizer.ggml.*_token_id", kHarmless},   // ids that no plain text has
    {"tokenizer.ggml.*_token_ids", kHarmless},  // the same
    {"tokenizer.ggml.token_type_count", kHarmless},
    {"tokenizer.huggingface.json", kHarmless},
    {"tokenizer.chat_template*", kHarmless},
};
constexpr KnownName kScoredModel[] = {
    {"tokenizer.ggml.scores", kUsed},
    {"tokenizer.ggml.merges", kHarmless},  // of the other model; here the scores say it
    {"tokenizer.ggml.pre", kHarmless},     // the same
};
constexpr KnownName kMergesModel[] = {
    {"tokenizer.ggml.merges", kUsed},
    {"tokenizer.ggml.pre", kUsed},
    {"tokenizer.ggml.scores", kHarmless},  // the merges say it
};

absl::Status Invalid(const std::string& file, absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": metadata '", key, "' ", what));
}

// The metadata about vocabularies, by key, as far as a list of names can judge it.
absl::Status CheckNames(const NameLists& lists, const Gguf& file, const std::string& name,
                        const std::string& what) {
  const std::string prefix = "tokenizer.";
  Json metadata = Json::object();
  for (auto at = file.metadata.lower_bound(prefix);
       at != file.metadata.end() && absl::StartsWith(at->first, prefix); ++at) {
    Json& value = metadata[at->first] = Json::array();  // of what cannot be compared
    if (const auto* text = std::get_if<std::string>(&at->second.value)) value = *text;
    if (const auto* truth = std::get_if<bool>(&at->second.value)) value = *truth;
  }
  return CheckKeys(lists, metadata, absl::StrCat(name, ": metadata "), what);
}

std::string TextOf(const Gguf& file, const char* key) {
  const GgufValue* value = file.Find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->value);
  return text == nullptr ? "" : *text;
}

absl::StatusOr<bool> BoolOf(const Gguf& file, const std::string& name, const char* key,
                            bool absent) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr) return absent;
  if (const auto* truth = std::get_if<bool>(&value->value)) return *truth;
  return Invalid(name, key, "must be true or false");
}

const GgufValue::Array* ArrayOf(const Gguf& file, const char* key) {
  const GgufValue* value = file.Find(key);
  return value == nullptr ? nullptr : std::get_if<GgufValue::Array>(&value->value);
}

// The id under `id_key`, where `add_key` says that a text gets it.
absl::StatusOr<std::optional<int32_t>> IdAround(const Gguf& file, const std::string& name,
                                                const char* add_key, const char* id_key,
                                                size_t pieces, bool add, int32_t absent) {
  NPUBANK_ASSIGN_OR_RETURN(add, BoolOf(file, name, add_key, add));
  if (!add) return std::optional<int32_t>();
  const GgufValue* value = file.Find(id_key);
  const auto* number = value == nullptr ? nullptr : std::get_if<uint64_t>(&value->value);
  if (value == nullptr && absent >= 0 && static_cast<size_t>(absent) < pieces)
    return std::optional<int32_t>(absent);
  if (number == nullptr || *number >= pieces)
    return Invalid(name, add_key,
                   absl::StrCat("is true, but '", id_key, "' is not the id of a piece"));
  return std::optional<int32_t>(static_cast<int32_t>(*number));
}

// Token types of llama.cpp.
absl::StatusOr<Vocabulary::Kind> KindOf(const GgufValue& value) {
  using Kind = Vocabulary::Kind;
  constexpr Kind kKinds[] = {Kind::kText,        Kind::kText,   Kind::kUnknown, Kind::kControl,
                             Kind::kUserDefined, Kind::kUnused, Kind::kText};
  int64_t number = -1;
  if (const auto* natural = std::get_if<uint64_t>(&value.value))
    number = static_cast<int64_t>(*natural);
  if (const auto* whole = std::get_if<int64_t>(&value.value)) number = *whole;
  if (number < 0 || number >= static_cast<int64_t>(std::size(kKinds)))
    return absl::InvalidArgumentError("is not a token type");
  return kKinds[number];
}

absl::StatusOr<std::vector<Vocabulary::Piece>> Pieces(const Gguf& file, const std::string& name,
                                                      bool scored) {
  const GgufValue::Array* tokens = ArrayOf(file, "tokenizer.ggml.tokens");
  const GgufValue::Array* scores = ArrayOf(file, "tokenizer.ggml.scores");
  const GgufValue::Array* types = ArrayOf(file, "tokenizer.ggml.token_type");
  if (tokens == nullptr || tokens->empty() || tokens->size() > Vocabulary::kMaxPieces)
    return Invalid(name, "tokenizer.ggml.tokens",
                   absl::StrCat("must be an array of 1 to ", Vocabulary::kMaxPieces));
  if (scored && (scores == nullptr || scores->size() != tokens->size()))
    return Invalid(name, "tokenizer.ggml.scores", "must be an array as long as the tokens");
  if (types != nullptr && types->size() != tokens->size())
    return Invalid(name, "tokenizer.ggml.token_type", "must be an array as long as the tokens");
  std::vector<Vocabulary::Piece> pieces;
  pieces.reserve(tokens->size());
  for (size_t i = 0; i < tokens->size(); ++i) {
    const auto* text = std::get_if<std::string>(&(*tokens)[i].value);
    const auto* score = scored ? std::get_if<double>(&(*scores)[i].value) : nullptr;
    if (text == nullptr ||
        (scored && (score == nullptr || !std::isfinite(static_cast<float>(*score)))))
      return Invalid(name, "tokenizer.ggml.tokens",
                     absl::StrCat("needs a string and a finite score for id ", i));
    Vocabulary::Piece piece = {*text, scored ? static_cast<float>(*score) : 0};
    if (types != nullptr) {
      const absl::StatusOr<Vocabulary::Kind> kind = KindOf((*types)[i]);
      if (!kind.ok())
        return Invalid(name, "tokenizer.ggml.token_type",
                       absl::StrCat("of id ", i, " ", kind.status().message()));
      piece.kind = *kind;
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

absl::StatusOr<Vocabulary> ScoredVocabulary(const Gguf& file, const std::string& name) {
  NPUBANK_RETURN_IF_ERROR(
      CheckNames({kScoredModel, kBothModels}, file, name, "a SentencePiece vocabulary"));
  Vocabulary vocabulary;
  NPUBANK_ASSIGN_OR_RETURN(vocabulary.pieces, Pieces(file, name, true));
  const size_t count = vocabulary.pieces.size();
  // SentencePiece writes a space as U+2581.
  for (Vocabulary::Piece& piece : vocabulary.pieces)
    piece.text = absl::StrReplaceAll(piece.text, {{"\u2581", " "}});
  NPUBANK_ASSIGN_OR_RETURN(vocabulary.bos, IdAround(file, name, "tokenizer.ggml.add_bos_token",
                                                    "tokenizer.ggml.bos_token_id", count, true, 1));
  NPUBANK_ASSIGN_OR_RETURN(vocabulary.eos,
                           IdAround(file, name, "tokenizer.ggml.add_eos_token",
                                    "tokenizer.ggml.eos_token_id", count, false, -1));
  NPUBANK_ASSIGN_OR_RETURN(vocabulary.add_space_prefix,
                           BoolOf(file, name, "tokenizer.ggml.add_space_prefix", true));
  return vocabulary;
}

absl::StatusOr<BpeModel> Model(const Gguf& file, const std::string& name,
                               const std::vector<Vocabulary::Piece>& pieces,
                               const GgufWords& words) {
  const GgufValue::Array* merges = ArrayOf(file, "tokenizer.ggml.merges");
  if (merges == nullptr) return Invalid(name, "tokenizer.ggml.merges", "must be an array");
  BpeModel::Parts parts;
  parts.whole_words_first = words.whole_words_first;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!parts.tokens.emplace(pieces[i].text, static_cast<int32_t>(i)).second)
      return Invalid(name, "tokenizer.ggml.tokens",
                     absl::StrCat("has ", Quote(pieces[i].text), " twice"));
  }
  for (const GgufValue& merge : *merges) {
    const auto* text = std::get_if<std::string>(&merge.value);
    // A token may be a space itself, but does not begin with one and go on.
    const size_t space = text == nullptr || text->empty() ? std::string::npos : text->find(' ', 1);
    if (space == std::string::npos)
      return Invalid(
          name, "tokenizer.ggml.merges",
          absl::StrCat("needs two tokens and a space between them at ", parts.merges.size()));
    parts.merges.emplace_back(text->substr(0, space), text->substr(space + 1));
  }
  absl::StatusOr<BpeModel> model = BpeModel::Create(std::move(parts));
  if (!model.ok())
    return Annotate(model.status(), absl::StrCat(name, ": metadata 'tokenizer.ggml.merges'"));
  return model;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MergesTokenizer(const Gguf& file,
                                                           const std::string& name) {
  NPUBANK_RETURN_IF_ERROR(
      CheckNames({kMergesModel, kBothModels}, file, name, "a vocabulary of merges"));
  const bool says = file.Find("tokenizer.ggml.pre") != nullptr;
  const std::string pre = says ? TextOf(file, "tokenizer.ggml.pre") : "default";
  const GgufWords* words = GgufWords::Find(pre);
  if (words == nullptr)
    return absl::UnimplementedError(absl::StrCat(name, ": metadata 'tokenizer.ggml.pre' is ",
                                                 Quote(pre), "; supported are ",
                                                 GgufWords::Names()));
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<Vocabulary::Piece> pieces, Pieces(file, name, false));
  NPUBANK_ASSIGN_OR_RETURN(BpeModel model, Model(file, name, pieces, *words));
  BpeTokenizer::Parts parts = {{}, {}, {}, std::move(model), {}, TokenDecoder::OfByteText()};
  NPUBANK_ASSIGN_OR_RETURN(const bool space,
                           BoolOf(file, name, "tokenizer.ggml.add_space_prefix", false));
  if (space)
    return Invalid(name, "tokenizer.ggml.add_space_prefix", "is not supported beside merges");
  for (size_t i = 0; i < pieces.size(); ++i) {
    using Kind = Vocabulary::Kind;
    const bool special = pieces[i].kind == Kind::kControl || pieces[i].kind == Kind::kUnknown;
    if (special || pieces[i].kind == Kind::kUserDefined)
      parts.added.push_back(
          {.id = static_cast<int32_t>(i), .text = pieces[i].text, .special = special});
  }
  for (const char* pattern : words->patterns)
    NPUBANK_RETURN_IF_ERROR(
        parts.pre_tokenizer.AddSplit(pattern, PreTokenizer::Matches::kIsolated));
  parts.pre_tokenizer.AddByteText();
  NPUBANK_ASSIGN_OR_RETURN(
      const std::optional<int32_t> bos,
      IdAround(file, name, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id",
               pieces.size(), words->add_bos, 11));
  NPUBANK_ASSIGN_OR_RETURN(const std::optional<int32_t> eos,
                           IdAround(file, name, "tokenizer.ggml.add_eos_token",
                                    "tokenizer.ggml.eos_token_id", pieces.size(), false, -1));
  if (bos) parts.around.before.push_back(*bos);
  if (eos) parts.around.behind.push_back(*eos);
  absl::StatusOr<std::unique_ptr<Tokenizer>> made = BpeTokenizer::Create(std::move(parts));
  if (!made.ok()) return Annotate(made.status(), name);
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> GgufTokenizer(const Gguf& file,
                                                         const std::string& name) {
  if (file.Find("tokenizer.ggml.model") == nullptr)
    return absl::NotFoundError(absl::StrCat(name, ": has no vocabulary ('tokenizer.ggml.model')"));
  const std::string model = TextOf(file, "tokenizer.ggml.model");
  if (model == "gpt2") return MergesTokenizer(file, name);
  if (model != "llama")
    return absl::UnimplementedError(absl::StrCat(name, ": metadata 'tokenizer.ggml.model' is ",
                                                 Quote(model),
                                                 "; supported are 'llama' and 'gpt2'"));
  NPUBANK_ASSIGN_OR_RETURN(Vocabulary vocabulary, ScoredVocabulary(file, name));
  absl::StatusOr<std::unique_ptr<Tokenizer>> made = ScoredTokenizer::Create(std::move(vocabulary));
  if (!made.ok()) return Annotate(made.status(), name);
  return made;
}

}  // namespace npubank

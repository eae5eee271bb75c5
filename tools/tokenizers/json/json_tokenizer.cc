#include "npubank/tools/tokenizers/json/json_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tools/tokenizers/bpe_tokenizer.h"
#include "npubank/tools/tokenizers/json/part.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

// "a b", or in newer files ["a", "b"].
absl::StatusOr<std::pair<std::string, std::string>> ParseMerge(const Json& entry) {
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string())
    return std::pair(entry[0].get<std::string>(), entry[1].get<std::string>());
  const std::string text = entry.is_string() ? entry.get<std::string>() : "";
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    return absl::InvalidArgumentError(
        "must be two tokens with a space between them, or a list of two");
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

absl::Status ParseVocabulary(Part& part, BpeModel::Parts& model) {
  const Json* vocabulary = part.Get("vocab");
  if (vocabulary == nullptr || !vocabulary->is_object() ||
      vocabulary->size() > Tokenizer::kMaxIds) {
    part.Fail("vocab", absl::StrCat("must be an object of up to ", Tokenizer::kMaxIds, " tokens"));
    return part.status();
  }
  model.tokens.reserve(vocabulary->size());
  for (const auto& [text, id] : vocabulary->items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= Tokenizer::kMaxIds) {
      part.Fail("vocab",
                absl::StrCat("must give ", Quote(text), " an id below ", Tokenizer::kMaxIds));
      return part.status();
    }
    model.tokens.emplace(text, id.get<int32_t>());
  }
  return absl::OkStatus();
}

absl::StatusOr<BpeModel> ParseModel(const Json& json, const std::string& where) {
  Part part(json, where);
  const std::string type = part.Text("type", "BPE");  // older files leave it out
  NPUBANK_RETURN_IF_ERROR(part.status());
  if (type != "BPE") return UnknownType(where, type, "BPE");
  part.Only("dropout", 0.0);
  part.Only("continuing_subword_prefix", "");
  part.Only("end_of_word_suffix", "");
  BpeModel::Parts model;
  if (part.Get("unk_token") != nullptr) model.unknown = part.Text("unk_token");
  model.fuse_unknown = part.Bool("fuse_unk", false);
  model.byte_fallback = part.Bool("byte_fallback", false);
  model.whole_words_first = part.Bool("ignore_merges", false);
  NPUBANK_RETURN_IF_ERROR(ParseVocabulary(part, model));
  const Json& merges = part.List("merges");
  model.merges.reserve(merges.size());
  for (const Json& entry : merges) {
    absl::StatusOr<std::pair<std::string, std::string>> merge = ParseMerge(entry);
    if (!merge.ok())
      return Annotate(merge.status(), absl::StrCat(where, ": merge ", model.merges.size()));
    model.merges.push_back(*std::move(merge));
  }
  NPUBANK_RETURN_IF_ERROR(part.Done());
  absl::StatusOr<BpeModel> made = BpeModel::Create(std::move(model));
  if (!made.ok()) return Annotate(made.status(), where);
  return made;
}

absl::StatusOr<AddedToken> ParseAdded(const Json& json, const std::string& where) {
  Part part(json, where);
  AddedToken token;
  token.id = static_cast<int32_t>(part.Int("id", 0, Tokenizer::kMaxIds - 1, -1));
  if (token.id < 0) part.Fail("id", "is missing");
  token.text = part.Text("content");
  token.special = part.Bool("special", false);
  token.single_word = part.Bool("single_word", false);
  token.lstrip = part.Bool("lstrip", false);
  token.rstrip = part.Bool("rstrip", false);
  token.normalized = part.Bool("normalized", !token.special);
  NPUBANK_RETURN_IF_ERROR(part.Done());
  return token;
}

absl::StatusOr<std::vector<AddedToken>> ParseAllAdded(Part& root) {
  std::vector<AddedToken> added;
  if (root.Get("added_tokens") == nullptr) return added;
  for (const Json& entry : root.List("added_tokens")) {
    NPUBANK_ASSIGN_OR_RETURN(
        AddedToken token,
        ParseAdded(entry, absl::StrCat(root.where(), ": added token ", added.size())));
    added.push_back(std::move(token));
  }
  return added;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Make(const Json& json, const std::string& file) {
  Part root(json, file);
  root.Ignore({"truncation", "padding"});
  root.Only("version", "1.0");
  const Json none;
  const auto of = [&](const char* key) -> const Json& {
    const Json* value = root.Get(key);
    return value == nullptr ? none : *value;
  };
  const auto named = [&](const char* key) { return absl::StrCat(file, ": ", key); };
  NPUBANK_ASSIGN_OR_RETURN(BpeModel model, ParseModel(of("model"), named("model")));
  NPUBANK_ASSIGN_OR_RETURN(std::vector<AddedToken> added, ParseAllAdded(root));
  NPUBANK_ASSIGN_OR_RETURN(Normalizer normalizer,
                           Normalizer::Create(of("normalizer"), named("normalizer")));
  NPUBANK_ASSIGN_OR_RETURN(PreTokenizer words,
                           PreTokenizer::Create(of("pre_tokenizer"), named("pre_tokenizer")));
  NPUBANK_ASSIGN_OR_RETURN(PostProcessor around,
                           PostProcessor::Create(of("post_processor"), named("post_processor")));
  NPUBANK_ASSIGN_OR_RETURN(TokenDecoder decoder,
                           TokenDecoder::Create(of("decoder"), named("decoder")));
  NPUBANK_RETURN_IF_ERROR(root.Done());
  absl::StatusOr<std::unique_ptr<Tokenizer>> made =
      BpeTokenizer::Create({std::move(added), std::move(normalizer), std::move(words),
                            std::move(model), std::move(around), std::move(decoder)});
  if (!made.ok()) return Annotate(made.status(), file);
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizerJson(absl::string_view text,
                                                              const std::string& file) {
  NPUBANK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, file));
  return Make(json, file);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizerJson(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxTokenizerJsonBytes));
  return ParseTokenizerJson(text, path);
}

}  // namespace npubank

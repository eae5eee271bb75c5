#include "npubank/tools/tokenizers/open_tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/json_fields.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tools/tokenizers/gguf/gguf_tokenizer.h"
#include "npubank/tools/tokenizers/json/json_tokenizer.h"
#include "npubank/tools/tokenizers/scored_tokenizer.h"
#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace npubank {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OfGguf(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source,
                           Source::OpenFile(path, FileAccess::kRead));
  NPUBANK_ASSIGN_OR_RETURN(const Gguf file, ReadGguf(*source));
  return GgufTokenizer(file, path);
}

// What tokenizer_config.json says that a text gets around it.
absl::StatusOr<AroundText> AroundTextOf(const fs::path& folder) {
  const std::string path = folder / "tokenizer_config.json";
  AroundText around;
  if (!Exists(path)) return around;
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, uint64_t{16} << 20));
  NPUBANK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, path));
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat(path, ": must be a JSON object"));
  JsonFields fields(json, path);
  around.bos = fields.Bool("add_bos_token", around.bos);
  around.eos = fields.Bool("add_eos_token", around.eos);
  NPUBANK_RETURN_IF_ERROR(fields.status());
  return around;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OfTokensJson(const std::string& path,
                                                        std::optional<int32_t> bos) {
  NPUBANK_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(path));
  vocabulary.bos = bos;
  absl::StatusOr<std::unique_ptr<Tokenizer>> made = ScoredTokenizer::Create(std::move(vocabulary));
  if (!made.ok()) return Annotate(made.status(), path);
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& model,
                                                         std::optional<int32_t> bos) {
  std::error_code error;
  if (!fs::is_directory(model, error)) return OfGguf(model);
  const fs::path folder = model;
  if (Exists(folder / "tokenizer.json")) return ReadTokenizerJson(folder / "tokenizer.json");
  if (Exists(folder / "tokenizer.model")) {
    NPUBANK_ASSIGN_OR_RETURN(const AroundText around, AroundTextOf(folder));
    return ReadSentencePiece(folder / "tokenizer.model", around);
  }
  const fs::path above = fs::weakly_canonical(folder, error).parent_path();
  for (const fs::path& place : {folder, above})
    if (Exists(place / "tokens.json")) return OfTokensJson(place / "tokens.json", bos);
  return absl::NotFoundError(absl::StrCat(
      "'", model, "' has no tokenizer.json and no tokenizer.model to turn text into ids"));
}

}  // namespace npubank

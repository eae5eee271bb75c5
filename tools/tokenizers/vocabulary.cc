#include "npubank/tools/tokenizers/vocabulary.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxVocabularyBytes = 64 << 20;

absl::StatusOr<Vocabulary::Piece> ParsePiece(const Json& entry) {
  if (!entry.is_object()) return absl::InvalidArgumentError("must be an object");
  const auto text = entry.find("piece");
  if (text == entry.end() || !text->is_string()) {
    return absl::InvalidArgumentError("needs a string 'piece'");
  }
  const auto score = entry.find("score");
  const float number =
      score != entry.end() && score->is_number() ? score->get<float>() : std::nanf("");
  if (!std::isfinite(number)) return absl::InvalidArgumentError("needs a finite 'score'");
  return Vocabulary::Piece{text->get<std::string>(), number};
}

}  // namespace

absl::StatusOr<Vocabulary> ParseVocabulary(absl::string_view json, const std::string& file) {
  NPUBANK_ASSIGN_OR_RETURN(const Json root, ParseJson(json, file));
  if (!root.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": must be a JSON list of pieces"));
  }
  if (root.size() > Vocabulary::kMaxPieces) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", root.size(), " pieces, more than ", Vocabulary::kMaxPieces));
  }
  Vocabulary vocabulary;
  vocabulary.pieces.reserve(root.size());
  for (const Json& entry : root) {
    absl::StatusOr<Vocabulary::Piece> piece = ParsePiece(entry);
    if (!piece.ok()) {
      return Annotate(piece.status(), absl::StrCat(file, ": piece ", vocabulary.pieces.size()));
    }
    vocabulary.pieces.push_back(*std::move(piece));
  }
  return vocabulary;
}

absl::StatusOr<Vocabulary> ReadVocabulary(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxVocabularyBytes));
  return ParseVocabulary(text, path);
}

}  // namespace npubank

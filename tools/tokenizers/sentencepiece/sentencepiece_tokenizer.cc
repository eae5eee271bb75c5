#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tools/tokenizers/byte_token.h"
#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_file.h"
#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_library.h"

namespace npubank {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<SentencePieceLibrary> library,
                         const SentencePieceFile& file, const AroundText& around)
      : library_(std::move(library)), file_(file), around_(around) {}

  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text, SpecialText) const override {
    std::vector<int32_t> pieces, ids;
    const std::string wrong = library_->Encode({text.data(), text.size()}, pieces);
    if (!wrong.empty()) return absl::InternalError(wrong);
    if (around_.bos && library_->bos() >= 0) ids.push_back(library_->bos());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
    if (around_.eos && library_->eos() >= 0) ids.push_back(library_->eos());
    return ids;
  }

  std::optional<std::string> BytesOf(int32_t id, bool first) const override {
    using Kind = SentencePieceLibrary::Kind;
    if (id < 0 || id >= size()) return std::nullopt;
    const Kind kind = library_->KindOf(id);
    if (kind == Kind::kControl) return std::nullopt;
    if (kind == Kind::kUnknown) return " \u2047 ";  // as the library shows it
    const std::string& piece = library_->Piece(id);
    if (kind == Kind::kByte) return std::string(1, static_cast<char>(ByteOfToken(piece)));
    std::string bytes = absl::StrReplaceAll(piece, {{"\u2581", " "}});
    const bool strip = file_.adds_space || file_.removes_spaces;
    if (!first || !strip || !absl::StartsWith(bytes, " ")) return bytes;
    bytes.erase(0, 1);
    // Where extra spaces are removed, so are all before the first word: it is still to come.
    if (bytes.empty() && file_.removes_spaces) return std::nullopt;
    return bytes;
  }

  int64_t size() const override { return library_->size(); }

 private:
  const std::unique_ptr<SentencePieceLibrary> library_;
  const SentencePieceFile file_;
  const AroundText around_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseSentencePiece(absl::string_view bytes,
                                                              const std::string& file,
                                                              const AroundText& around) {
  NPUBANK_ASSIGN_OR_RETURN(const SentencePieceFile checked, CheckSentencePiece(bytes, file));
  auto library = std::make_unique<SentencePieceLibrary>();
  const std::string wrong = library->Load({bytes.data(), bytes.size()});
  if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", wrong));
  return std::make_unique<SentencePieceTokenizer>(std::move(library), checked, around);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadSentencePiece(const std::string& path,
                                                             const AroundText& around) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string bytes,
                           ReadTextFile(path, SentencePieceFile::kMaxBytes));
  return ParseSentencePiece(bytes, path, around);
}

}  // namespace npubank

#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_library.h"

#include <sentencepiece_processor.h>

#include <exception>

namespace npubank {
namespace {

template <typename Call>
std::string Guarded(const Call& call) {
  try {
    const sentencepiece::util::Status status = call();
    return status.ok() ? "" : status.ToString();
  } catch (const std::exception& error) {
    return std::string("libsentencepiece: ") + error.what();
  }
}

}  // namespace

struct SentencePieceLibrary::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencePieceLibrary::SentencePieceLibrary() : processor_(std::make_unique<Processor>()) {}
SentencePieceLibrary::~SentencePieceLibrary() = default;

std::string SentencePieceLibrary::Load(std::string_view model) {
  return Guarded([&] { return processor_->library.LoadFromSerializedProto(model); });
}

std::string SentencePieceLibrary::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  return Guarded([&] { return processor_->library.Encode(text, &ids); });
}

std::string SentencePieceLibrary::Decode(const std::vector<int32_t>& ids, std::string& text) const {
  return Guarded([&] { return processor_->library.Decode(ids, &text); });
}

int32_t SentencePieceLibrary::size() const { return processor_->library.GetPieceSize(); }
int32_t SentencePieceLibrary::bos() const { return processor_->library.bos_id(); }
int32_t SentencePieceLibrary::eos() const { return processor_->library.eos_id(); }

const std::string& SentencePieceLibrary::Piece(int32_t id) const {
  return processor_->library.IdToPiece(id);
}

SentencePieceLibrary::Kind SentencePieceLibrary::KindOf(int32_t id) const {
  if (processor_->library.IsControl(id)) return Kind::kControl;
  if (processor_->library.IsUnknown(id)) return Kind::kUnknown;
  return processor_->library.IsByte(id) ? Kind::kByte : Kind::kText;
}

}  // namespace npubank

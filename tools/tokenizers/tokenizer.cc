#include "npubank/tools/tokenizers/tokenizer.h"

#include <utility>

#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {

std::string Tokenizer::Decode(absl::Span<const int32_t> ids) const {
  TextStream stream(*this);
  std::string text;
  for (const int32_t id : ids) text += stream.Push(id);
  return text + stream.Finish();
}

std::string TextStream::Push(int32_t id) {
  const std::optional<std::string> bytes = tokenizer_.BytesOf(id, first_);
  if (!bytes) return "";
  first_ = false;
  begun_ += *bytes;
  const size_t cut = CutCharBytes(begun_);
  const size_t whole = begun_.size() - cut;
  std::string text = ValidUtf8(absl::string_view(begun_).substr(0, whole));
  begun_.erase(0, whole);
  return text;
}

std::string TextStream::Finish() {
  first_ = true;
  return ValidUtf8(std::exchange(begun_, {}));
}

}  // namespace npubank

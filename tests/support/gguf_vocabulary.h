// A vocabulary for GGUF files that have none, as make-checkpoint writes them: llama.cpp opens no model without one.
//
//   AddVocabulary(made_up.model(), shape.vocab, path);   // a copy that llama.cpp opens
//
// SentencePiece's, with a piece for every byte.
#ifndef NPUBANK_TESTS_SUPPORT_GGUF_VOCABULARY_H_
#define NPUBANK_TESTS_SUPPORT_GGUF_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "npubank/tests/support/program.h"

namespace npubank {

class GgufVocabulary {
 public:
  static constexpr uint64_t kKeys = 5;

  explicit GgufVocabulary(int64_t size) {
    constexpr uint32_t kInt32 = 5, kFloat = 6, kString = 8, kArray = 9;
    std::string pieces, scores, kinds;
    for (int64_t i = 0; i < size; ++i) {
      const bool byte = i >= 3 && i < 259;
      pieces += Text(byte ? absl::StrFormat("<0x%02X>", i - 3) : absl::StrCat("w", i));
      scores += Little(-static_cast<float>(i));
      kinds += Little(int32_t{i == 0 ? 2 : i < 3 ? 3 : byte ? 6 : 1});
    }
    const auto array = [&](const char* key, uint32_t type, const std::string& values) {
      bytes_ +=
          Text(key) + Little(kArray) + Little(type) + Little(static_cast<uint64_t>(size)) + values;
    };
    bytes_ += Text("tokenizer.ggml.model") + Little(kString) + Text("llama");
    array("tokenizer.ggml.tokens", kString, pieces);
    array("tokenizer.ggml.scores", kFloat, scores);
    array("tokenizer.ggml.token_type", kInt32, kinds);
  }

  template <typename Number>
  static std::string Little(Number number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  static std::string Text(const std::string& text) { return Little(uint64_t{text.size()}) + text; }

  // Its keys but the last, one after the other: what follows is "general.filler", a text.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Before the file's other metadata. Tensors keep their offsets, which count from the data.
inline void AddVocabulary(const std::string& from, int64_t size, const std::string& to) {
  using V = GgufVocabulary;
  constexpr size_t kKeyCount = 16, kMetadata = 24, kAlignment = 32;
  const V vocabulary(size);
  std::string bytes = ReadWholeFile(from);
  uint64_t keys = 0;
  std::memcpy(&keys, bytes.data() + kKeyCount, sizeof(keys));
  keys += V::kKeys;
  std::memcpy(bytes.data() + kKeyCount, &keys, sizeof(keys));
  // A key that says nothing makes what is put in a multiple of the alignment, so that the data's place stays one.
  const std::string filler = V::Text("general.filler") + V::Little(uint32_t{8});
  const size_t length = vocabulary.bytes().size() + filler.size() + V::Text("").size();
  const std::string dots((kAlignment - length % kAlignment) % kAlignment, '.');
  bytes.insert(kMetadata, vocabulary.bytes() + filler + V::Text(dots));
  WriteWholeFile(to, bytes);
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_GGUF_VOCABULARY_H_

// SentencePieceLibrary: libsentencepiece behind a wall: its header declares names in absl that are Abseil's.
//
// So nothing of Abseil's is in this file or its .cc, and errors are texts. It does not check what it loads:
// sentencepiece_file.h does, before. No exception leaves it. Private to sentencepiece_tokenizer and its test.
// Threads: const calls from any.
#ifndef NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_LIBRARY_H_
#define NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace npubank {

class SentencePieceLibrary {
 public:
  enum class Kind { kText, kControl, kUnknown, kByte };

  SentencePieceLibrary();
  ~SentencePieceLibrary();
  SentencePieceLibrary(const SentencePieceLibrary&) = delete;
  SentencePieceLibrary& operator=(const SentencePieceLibrary&) = delete;

  // Each returns what is wrong, or nothing. Load once, before anything else.
  std::string Load(std::string_view model);
  std::string Encode(std::string_view text, std::vector<int32_t>& ids) const;
  std::string Decode(const std::vector<int32_t>& ids, std::string& text) const;

  int32_t size() const;
  int32_t bos() const;  // -1: none
  int32_t eos() const;
  // Of ids below size().
  const std::string& Piece(int32_t id) const;
  Kind KindOf(int32_t id) const;

 private:
  struct Processor;
  const std::unique_ptr<Processor> processor_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_SENTENCEPIECE_SENTENCEPIECE_LIBRARY_H_

// Whatever tokens.json says, a vocabulary that is accepted encodes any text to ids within it.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "npubank/tests/fuzz/tokenizers/hostile_tokenizer.h"
#include "npubank/tools/tokenizers/scored_tokenizer.h"
#include "npubank/tools/tokenizers/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  auto vocabulary = npubank::ParseVocabulary(text, "fuzz");
  if (!vocabulary.ok()) return 0;
  vocabulary->bos = 0;
  const auto tokenizer = npubank::ScoredTokenizer::Create(*std::move(vocabulary));
  if (tokenizer.ok()) npubank::UseHostileTokenizer(**tokenizer, text);
  return 0;
}

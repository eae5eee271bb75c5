// Whatever tokens.json says, a vocabulary that is accepted encodes any text to ids within it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/model/vocabulary.h"
#include "npubank/tools/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  auto vocabulary = npubank::ParseVocabulary(text, "fuzz");
  if (!vocabulary.ok()) return 0;
  const auto count = static_cast<int64_t>(vocabulary->pieces.size());
  const auto tokenizer = npubank::Tokenizer::Create(*std::move(vocabulary), 0);
  if (!tokenizer.ok()) return 0;
  const std::vector<int64_t> ids = tokenizer->Encode(text);
  for (const int64_t id : ids) {
    if (id < 0 || id >= count) abort();
  }
  tokenizer->Decode(ids);
  return 0;
}

// Whatever a GGUF file says of its vocabulary, a tokenizer that is accepted encodes any text to ids within it.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/tests/fuzz/fuzzed_source.h"
#include "npubank/tests/fuzz/tokenizers/hostile_tokenizer.h"
#include "npubank/tools/tokenizers/gguf/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::shared_ptr<npubank::Source> source = npubank::FuzzedSource(data, size);
  const auto file = npubank::ReadGguf(*source);
  if (!file.ok()) return 0;
  const auto tokenizer = npubank::GgufTokenizer(*file, "fuzz");
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (tokenizer.ok()) npubank::UseHostileTokenizer(**tokenizer, text);
  return 0;
}

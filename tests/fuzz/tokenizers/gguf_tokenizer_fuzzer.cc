// Whatever a GGUF file says of its vocabulary, a tokenizer that is accepted encodes any text to ids within it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/fuzz/hostile_tokenizer.h"
#include "npubank/tools/tokenizers/gguf/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::shared_ptr<npubank::Source> source =
      npubank::Source::FromBuffer(std::vector<std::byte>(begin, begin + size), "fuzz");
  const auto file = npubank::ReadGguf(*source);
  if (!file.ok()) return 0;
  const auto tokenizer = npubank::GgufTokenizer(*file, "fuzz");
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (tokenizer.ok()) npubank::UseHostileTokenizer(**tokenizer, text);
  return 0;
}

// What must hold of any tokenizer that was accepted, whatever its file says.
#ifndef NPUBANK_TESTS_FUZZ_TOKENIZERS_HOSTILE_TOKENIZER_H_
#define NPUBANK_TESTS_FUZZ_TOKENIZERS_HOSTILE_TOKENIZER_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/text/utf8.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

// Encodes some of the input and text of all kinds; aborts for ids out of bounds and for decoded text that is not
// valid UTF-8.
inline void UseHostileTokenizer(const Tokenizer& tokenizer, absl::string_view input) {
  const absl::string_view texts[] = {input.substr(0, 256), "",
                                     " a\xFF\xC3 1234 \u00E9\u0301\u4F60\n\n </s>"};
  for (const absl::string_view text : texts) {
    for (const SpecialText special : {SpecialText::kTokens, SpecialText::kPlain}) {
      const auto ids = tokenizer.Encode(text, special);
      if (!ids.ok()) continue;
      for (const int32_t id : *ids)
        if (id < 0 || id >= tokenizer.size()) abort();
      const std::string decoded = tokenizer.Decode(*ids);
      if (ValidUtf8(decoded) != decoded) abort();
    }
  }
  tokenizer.Decode({-1, 0, 1, static_cast<int32_t>(tokenizer.size()), INT32_MAX});
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_FUZZ_TOKENIZERS_HOSTILE_TOKENIZER_H_

// Pattern: what a part of tokenizer.json looks for: {"String": " "} or {"Regex": "\\s+"}.
//
// Threads: immutable. Errors: those of Regex; InvalidArgument naming the key where it is neither, or empty.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_PATTERN_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_PATTERN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/tools/tokenizers/json/part.h"
#include "npubank/tools/tokenizers/text/regex.h"

namespace npubank {

class Pattern {
 public:
  static absl::StatusOr<Pattern> Create(Part& part, const char* key);
  explicit Pattern(std::string text) : text_(std::move(text)) {}  // not empty
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}

  // From front to back, none within another.
  absl::Status ForEachMatch(absl::string_view text,
                            absl::FunctionRef<void(size_t begin, size_t end)> each) const;
  // The text itself, where it is no regular expression.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::optional<Regex> regex_;  // in place of the text
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_PATTERN_H_

// Regex: the patterns by which tokenizers cut text, found one after the other.
//
//   NPUBANK_ASSIGN_OR_RETURN(const Regex words, Regex::Create(" ?\\p{L}+"));
//   NPUBANK_RETURN_IF_ERROR(words.ForEachMatch(text, [&](size_t begin, size_t end) { ... }));
//
// Patterns are those of tokenizer.json, which are written for Oniguruma, and run on PCRE2 with Unicode
// properties. Where the two mean different things by the same letters, the pattern is rewritten: \s is
// White_Space, \w has marks in it, ^ and $ are the ends of lines. What cannot be rewritten is refused by name:
// \b, \h and other letters of one dialect, classes within classes.
//
// Text must be valid UTF-8. An empty match is one, but not right behind the match before it.
// Cost: a search takes kMaxSteps at most from each place where it begins, and kMaxHeapKib of memory.
// Errors: InvalidArgument for a pattern, with the place; ResourceExhausted for a text that goes over one of
// these limits, naming the limit and the pattern. Threads: immutable.
#ifndef NPUBANK_TOOLS_TOKENIZERS_TEXT_REGEX_H_
#define NPUBANK_TOOLS_TOKENIZERS_TEXT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

class Regex {
 public:
  static constexpr size_t kMaxPatternBytes = 1 << 16;
  static constexpr uint32_t kMaxSteps = 50'000'000;
  static constexpr uint32_t kMaxHeapKib = 512 << 10;

  static absl::StatusOr<Regex> Create(absl::string_view pattern);

  absl::Status ForEachMatch(absl::string_view text,
                            absl::FunctionRef<void(size_t begin, size_t end)> each) const;

 private:
  Regex() = default;

  std::string pattern_;               // as it was given
  std::shared_ptr<const void> code_;  // pcre2_code: not in a header
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_TEXT_REGEX_H_

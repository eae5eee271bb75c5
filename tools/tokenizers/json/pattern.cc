#include "npubank/tools/tokenizers/json/pattern.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

absl::StatusOr<Pattern> Pattern::Create(Part& part, const char* key) {
  const nlohmann::json* value = part.Get(key);
  if (value == nullptr) {
    part.Fail(key, "is missing");
    return part.status();
  }
  Part pattern(*value, absl::StrCat(part.where(), ": '", key, "'"));
  const nlohmann::json* regex = pattern.Get("Regex");
  const std::string text = pattern.Text(regex != nullptr ? "Regex" : "String");
  NPUBANK_RETURN_IF_ERROR(pattern.Done());
  if (text.empty()) {
    part.Fail(key, "is empty");
    return part.status();
  }
  if (regex == nullptr) return Pattern(text);
  absl::StatusOr<Regex> compiled = Regex::Create(text);
  if (!compiled.ok()) return Annotate(compiled.status(), part.where());
  return Pattern(*std::move(compiled));
}

absl::Status Pattern::ForEachMatch(absl::string_view text,
                                   absl::FunctionRef<void(size_t, size_t)> each) const {
  if (regex_) return regex_->ForEachMatch(text, each);
  for (size_t at = text.find(text_); at != absl::string_view::npos;
       at = text.find(text_, at + text_.size()))
    each(at, at + text_.size());
  return absl::OkStatus();
}

}  // namespace npubank

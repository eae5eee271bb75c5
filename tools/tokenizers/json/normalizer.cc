#include "npubank/tools/tokenizers/json/normalizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/tokenizers/json/part.h"
#include "npubank/tools/tokenizers/json/pattern.h"
#include "npubank/tools/tokenizers/text/unicode.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

constexpr char kTypes[] =
    "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace and Sequence";

absl::Status TooLong() {
  return absl::ResourceExhaustedError(absl::StrCat("normalising the text would make more than ",
                                                   Normalizer::kMaxBytes, " bytes of it"));
}

absl::Status Replace(const Pattern& pattern, const std::string& content, std::string& text) {
  std::string result;
  size_t done = 0;
  bool fits = true;
  NPUBANK_RETURN_IF_ERROR(pattern.ForEachMatch(text, [&](size_t begin, size_t end) {
    fits = fits && result.size() + (begin - done) + content.size() <= Normalizer::kMaxBytes;
    if (!fits) return;
    result.append(text, done, begin - done);
    result += content;
    done = end;
  }));
  if (!fits) return TooLong();
  result.append(text, done);
  text = std::move(result);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Create(const Json& json, const std::string& where) {
  Normalizer normalizer;
  if (!json.is_null()) NPUBANK_RETURN_IF_ERROR(normalizer.Append(json, where));
  return normalizer;
}

absl::StatusOr<Normalizer::Step> Normalizer::MakeStep(const std::string& type, Part& part) {
  for (const auto& [name, form] : {std::pair{"NFC", NormalForm::kC},
                                   {"NFD", NormalForm::kD},
                                   {"NFKC", NormalForm::kKC},
                                   {"NFKD", NormalForm::kKD}}) {
    if (type != name) continue;
    return Step([form = form](std::string& text) {
      text = NormalText(text, form);
      return absl::OkStatus();
    });
  }
  const auto simple = [](std::string (*change)(absl::string_view)) -> Step {
    return [change](std::string& text) {
      text = change(text);
      return absl::OkStatus();
    };
  };
  if (type == "Lowercase") return simple(Lowercase);
  if (type == "StripAccents") return simple(WithoutMarks);
  if (type == "Strip") {
    const bool left = part.Bool("strip_left", true), right = part.Bool("strip_right", true);
    return Step([left, right](std::string& text) {
      if (left) text.erase(0, LeadingSpace(text));
      if (right) text.erase(text.size() - TrailingSpace(text));
      return absl::OkStatus();
    });
  }
  if (type == "Prepend") {
    return Step([prefix = part.Text("prepend")](std::string& text) {
      if (!text.empty()) text.insert(0, prefix);
      return absl::OkStatus();
    });
  }
  if (type == "Replace") {
    NPUBANK_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Create(part, "pattern"));
    return Step([pattern, content = part.Text("content")](std::string& text) {
      return Replace(pattern, content, text);
    });
  }
  return UnknownType(part.where(), type, kTypes);
}

absl::Status Normalizer::Append(const Json& json, const std::string& where) {
  Part part(json, where);
  const std::string type = part.Text("type");
  NPUBANK_RETURN_IF_ERROR(part.status());
  if (type == "Sequence") {
    for (const Json& each : part.List("normalizers")) NPUBANK_RETURN_IF_ERROR(Append(each, where));
    return part.Done();
  }
  NPUBANK_ASSIGN_OR_RETURN(Step step, MakeStep(type, part));
  steps_.push_back(std::move(step));
  return part.Done();
}

absl::Status Normalizer::Apply(std::string& text) const {
  for (const Step& step : steps_) {
    NPUBANK_RETURN_IF_ERROR(step(text));
    if (text.size() > kMaxBytes) return TooLong();
  }
  return absl::OkStatus();
}

}  // namespace npubank

// Normalizer: what a tokenizer.json does to a text before it is cut into words.
//
//   NPUBANK_ASSIGN_OR_RETURN(const Normalizer normalizer, Normalizer::Create(json, "tokenizer.json: normalizer"));
//   NPUBANK_RETURN_IF_ERROR(normalizer.Apply(text));
//
// Types: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace (of a string or a pattern), and
// Sequence of them. Text is valid UTF-8 and stays it. An empty text stays empty. Threads: immutable.
// Errors: Unimplemented naming another type or key, InvalidArgument for what is wrong with one of these; of Apply
// those of Regex, and ResourceExhausted for a text that would grow beyond kMaxBytes.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_NORMALIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_NORMALIZER_H_

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace npubank {

class Normalizer {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 26;

  // `json` may be null: nothing is done then.
  static absl::StatusOr<Normalizer> Create(const nlohmann::json& json, const std::string& where);

  absl::Status Apply(std::string& text) const;

 private:
  using Step = std::function<absl::Status(std::string& text)>;
  absl::Status Append(const nlohmann::json& json, const std::string& where);
  static absl::StatusOr<Step> MakeStep(const std::string& type, class Part& part);

  std::vector<Step> steps_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_NORMALIZER_H_

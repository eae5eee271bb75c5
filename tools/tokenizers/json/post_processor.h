// PostProcessor: the ids that a tokenizer.json puts before and behind a text's.
//
//   NPUBANK_ASSIGN_OR_RETURN(const PostProcessor around, PostProcessor::Create(json, "tokenizer.json: post_processor"));
//   around.before;   // {1}: BOS
//
// Types: TemplateProcessing (of a single text), ByteLevel (which changes no id), and Sequence of them.
// Errors: Unimplemented naming another type or key, InvalidArgument for what is wrong with one of these.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_POST_PROCESSOR_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_POST_PROCESSOR_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace npubank {

struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> behind;

  // `json` may be null: nothing is put anywhere.
  static absl::StatusOr<PostProcessor> Create(const nlohmann::json& json, const std::string& where);

 private:
  absl::Status Append(const nlohmann::json& json, const std::string& where);
  absl::Status AppendTemplate(class Part& part);
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_POST_PROCESSOR_H_

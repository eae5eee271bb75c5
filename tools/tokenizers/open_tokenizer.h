// OpenTokenizer: a model's tokenizer, wherever the model has it.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer("model", {.bos = 1}));
//
// A .gguf file has its own. In a folder the first of these counts: tokenizer.json; tokenizer.model, with
// add_bos_token and add_eos_token of tokenizer_config.json; tokens.json (vocabulary.h), also in the folder above, as
// several layouts of one model may share it.
//
// Errors: NotFound where there is none, naming what was looked for; those of the file that was found.
#ifndef NPUBANK_TOOLS_TOKENIZERS_OPEN_TOKENIZER_H_
#define NPUBANK_TOOLS_TOKENIZERS_OPEN_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

// `bos` is of the model's config: tokens.json does not say it.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& model,
                                                         std::optional<int32_t> bos);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_OPEN_TOKENIZER_H_

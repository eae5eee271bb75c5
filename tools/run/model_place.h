// FindModel: where the model lies that somebody has named.
//
//   NPUBANK_ASSIGN_OR_RETURN(const std::string path, FindModel("HuggingFaceTB/SmolLM2-135M"));
//
// A name that is a path of something is that. Another one is a repository's in the cache that Hugging Face's
// programs download into: $HF_HUB_CACHE, or $HF_HOME/hub, or $XDG_CACHE_HOME/huggingface/hub, or
// ~/.cache/huggingface/hub; there models--ORG--NAME/snapshots/COMMIT, of which refs/main names the one, where several
// are there. A snapshot without config.json and with one .gguf file is that file. Nothing is downloaded.
// Errors: NotFound that says where it was looked for; FailedPrecondition for snapshots that nothing chooses among.
#ifndef NPUBANK_TOOLS_RUN_MODEL_PLACE_H_
#define NPUBANK_TOOLS_RUN_MODEL_PLACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace npubank {

absl::StatusOr<std::string> FindModel(const std::string& name);

// The tokens that end a model's text: eos_token_id of generation_config.json beside the model, one or several, as
// far as it has them; in a GGUF file the ids of its ends of text and of turns; else those of `config`.
absl::StatusOr<std::vector<int64_t>> EndTokens(const std::string& path,
                                               const std::vector<int64_t>& config);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_MODEL_PLACE_H_

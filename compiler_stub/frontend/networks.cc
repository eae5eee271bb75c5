#include "npubank/compiler_stub/frontend/networks.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

struct Network {
  const char* model_type;
  absl::StatusOr<Graph> (*build)(const Checkpoint& model, const CompileOptions& options);
};

constexpr Network kNetworks[] = {
    {"llama", BuildLlama}, {"mistral", BuildLlama}, {"qwen2", BuildQwen2},
    {"qwen3", BuildQwen3}, {"phi3", BuildPhi3},
};

}  // namespace

absl::StatusOr<Graph> BuildNetwork(const Checkpoint& model, const CompileOptions& options) {
  for (const Network& network : kNetworks) {
    if (model.config().model_type == network.model_type) return network.build(model, options);
  }
  return absl::UnimplementedError(absl::StrCat(model.path(), ": no description of a '",
                                               model.config().model_type, "' network to compile"));
}

}  // namespace npubank

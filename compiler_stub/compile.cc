#include "npubank/compiler_stub/compile.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/compile_graph.h"
#include "npubank/compiler_stub/frontend/networks.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr int64_t kMaxChunk = 4096;

absl::Status CheckOptions(const ModelConfig& config, const CompileOptions& options) {
  NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(options.name), "the submodel"));
  if (options.chunk < 1 || options.chunk > kMaxChunk) {
    return absl::InvalidArgumentError(absl::StrCat("submodel '", options.name, "': chunk ",
                                                   options.chunk, " is not in 1..", kMaxChunk));
  }
  if (options.context < options.chunk || options.context > config.context_length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "submodel '", options.name, "': context ", options.context, " is not between the chunk of ",
        options.chunk, " and the model's context length of ", config.context_length));
  }
  const uint64_t alignment = options.device.argument_alignment;
  if (!std::has_single_bit(alignment) || alignment > DeviceTraits::kMostArgumentAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat("submodel '", options.name, "': the device wants arguments at multiples of ",
                     alignment, ", not a power of two up to ",
                     DeviceTraits::kMostArgumentAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Compile(const Checkpoint& model, const CompileOptions& options) {
  NPUBANK_RETURN_IF_ERROR(CheckOptions(model.config(), options));
  NPUBANK_ASSIGN_OR_RETURN(const Graph graph, BuildNetwork(model, options));
  NPUBANK_ASSIGN_OR_RETURN(SubmodelBlob blob, CompileGraph(graph, options));
  blob.vocabulary = static_cast<uint64_t>(model.config().vocab_size);
  return WriteSubmodelBlob(blob);
}

}  // namespace npubank

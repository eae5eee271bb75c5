// Networks: the decoders that can be built, one description each, for S positions against a cache of N.
//
//   NPUBANK_ASSIGN_OR_RETURN(Graph graph, BuildNetwork(*checkpoint, options));
//
// Which one is what the config's model_type says: llama, mistral, qwen2, qwen3, phi3. Each is put together from the
// pieces of decoder.h in a file of its own; README.md says what a new one takes. Operations carry the names of what they
// make ("layers.3.gate"), weights those of the checkpoint. The interface (inputs, output, states) is the one that
// compile.h states.
//
// Errors: Unimplemented for a model_type without a description; those of Weights. Threads: pure.
#ifndef NPUBANK_COMPILER_STUB_FRONTEND_NETWORKS_H_
#define NPUBANK_COMPILER_STUB_FRONTEND_NETWORKS_H_

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/compiler_stub/frontend/graph.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"

namespace npubank {

absl::StatusOr<Graph> BuildNetwork(const Checkpoint& model, const CompileOptions& options);

// The descriptions. Llama's is Mistral's as well: its window is in the config.
absl::StatusOr<Graph> BuildLlama(const Checkpoint& model, const CompileOptions& options);
absl::StatusOr<Graph> BuildQwen2(const Checkpoint& model, const CompileOptions& options);
absl::StatusOr<Graph> BuildQwen3(const Checkpoint& model, const CompileOptions& options);
absl::StatusOr<Graph> BuildPhi3(const Checkpoint& model, const CompileOptions& options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_FRONTEND_NETWORKS_H_

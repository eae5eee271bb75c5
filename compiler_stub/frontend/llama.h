// Llama: the graph of a Llama-family decoder for S positions against a cache of N.
//
//   NPUBANK_ASSIGN_OR_RETURN(Graph graph, BuildLlama(*checkpoint, options));
//
// The network: token embedding; per layer RMS norm, grouped-query attention with rotary positions
// over the cache, residual, RMS norm, SwiGLU, residual; then the last row that counts through the
// final norm and the head. Operations carry the names of what they make ("layers.3.gate"), weights
// those of the checkpoint. The interface (inputs, output, states) is the one that compile.h states.
//
// Errors: NotFound for a tensor that the model does not have; InvalidArgument for a tensor whose shape is not what the config
// says or whose element type the format cannot take; both name the tensor.
#ifndef NPUBANK_COMPILER_STUB_FRONTEND_LLAMA_H_
#define NPUBANK_COMPILER_STUB_FRONTEND_LLAMA_H_

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/compiler_stub/frontend/graph.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"

namespace npubank {

absl::StatusOr<Graph> BuildLlama(const Checkpoint& model, const CompileOptions& options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_FRONTEND_LLAMA_H_

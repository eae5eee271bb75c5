// CompileGraph: any graph in, a submodel out: partition, bodies, closures and the plan of the
// arena.
//
//   NPUBANK_ASSIGN_OR_RETURN(SubmodelBlob blob, CompileGraph(graph, options));
//
// What compile.h does for a Llama, without knowing what a Llama is. The values that pass between
// calls and one scratch region, as large as the hungriest function needs, share the arena. Every
// value made by one call is kept until the last call that reads it.
// Errors: InvalidArgument when two inputs, states, outputs or weights have one name, or the device
// has no function for a weight (names weight, operation and element type); otherwise as in body.h.
// Threads: pure.
#ifndef NPUBANK_COMPILER_STUB_COMPILE_GRAPH_H_
#define NPUBANK_COMPILER_STUB_COMPILE_GRAPH_H_

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/compiler_stub/frontend/graph.h"

namespace npubank {

absl::StatusOr<SubmodelBlob> CompileGraph(const Graph& graph, const CompileOptions& options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_COMPILE_GRAPH_H_

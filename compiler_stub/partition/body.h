// Body: what one function of a partition does, with a place for every value.
//
//   NPUBANK_ASSIGN_OR_RETURN(Function function, BuildBody(graph, partition, 1, "block", options));
//
// The arguments are those that the partition says for the function's calls (inputs, then "scratch"
// when the body needs any, then outputs), named after what the calls' values have in common:
// "layers.key_cache". The planner decides which results are written over dying values and which
// sums are added by the MatMul before them; values that share memory with an output lie in its
// argument, the rest in scratch. An activation that dies in every call and that the plan ends up
// writing an output over makes that output's argument lie `over` it: a decoder layer works on its
// hidden state where it is.
//
// Errors: those of the planner; Internal when the body does not pass CheckFunction, which is a
// defect here or a graph whose operations do not fit together. Threads: pure.
#ifndef NPUBANK_COMPILER_STUB_PARTITION_BODY_H_
#define NPUBANK_COMPILER_STUB_PARTITION_BODY_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/compiler_stub/frontend/graph.h"
#include "npubank/compiler_stub/partition/partition.h"

namespace npubank {

absl::StatusOr<Function> BuildBody(const Graph& graph, const Partition& partition, size_t function,
                                   std::string name, const CompileOptions& options);

// The parts between dots that two names agree on: "layers.0.q" and "layers.1.q" have "layers.q".
std::string CommonName(absl::string_view a, absl::string_view b);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PARTITION_BODY_H_

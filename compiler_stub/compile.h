// Compile: a decoder (frontend/networks.h) and a phase in, a weightless submodel blob out.
//
//   CompileOptions options;
//   options.name = "prefill";
//   options.chunk = 64;       // S: positions per run; 1 makes the kvcache submodel
//   options.context = 1024;   // N: positions in the cache
//   NPUBANK_ASSIGN_OR_RETURN(std::string blob, Compile(*checkpoint, options));
//
// The stub of an NPU compiler: it builds the graph of the decoder for S positions against a cache
// of N, finds the blocks that repeat, emits each once as a function with its calls, each call with
// its closure of recipes, and plans the activations. Submodels of one model compiled with the same
// weight format produce equal recipes, so a bank shares all their weights.
//
// Interface of every submodel (values by name): inputs "tokens" I32[S] and "span" I32[2] =
// {position of the first token, how many of the S count}; output "logits" F32[1,V] of the last
// token that counts; states "layers.<i>.key_cache" and "layers.<i>.value_cache" F32[N, kv_heads *
// head_dim].
//
// Cost: reads tensor types only, no weight bytes; milliseconds. Threads: pure.
// Errors: InvalidArgument for options out of range (S of 1..4096, S <= N <= the model's context
// length), a tensor whose shape is not what the config says (names both), or one that the weight
// format brings to the device in an element type for which the device has no function (names all
// three: choose another format); NotFound for a missing tensor.
#ifndef NPUBANK_COMPILER_STUB_COMPILE_H_
#define NPUBANK_COMPILER_STUB_COMPILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"

namespace npubank {

absl::StatusOr<std::string> Compile(const Checkpoint& model, const CompileOptions& options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_COMPILE_H_

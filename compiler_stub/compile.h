// Compile: a Llama-family decoder and a phase in, a weightless submodel blob out.
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

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/device_traits.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"

namespace npubank {

// How weights lie on the device.
enum class WeightFormat {
  kKeep,  // as the checkpoint stores them: nothing to transform, so nothing to copy where import
          // works
  kF32,  // the others: matrices transposed to [in, out], then converted; tables and norms converted
  kF16,
  kBF16,
};
std::optional<WeightFormat> WeightFormatFromName(
    absl::string_view name);  // "keep", "f32", "f16", "bf16"

// How attention works through the query heads.
enum class AttentionForm {
  kWhole,    // scores of all heads at once: [heads, S, N]
  kPerHead,  // one head after the other: [1, S, N], less memory, more operations
};
std::optional<AttentionForm> AttentionFormFromName(absl::string_view name);  // "whole", "perhead"
std::optional<Schedule> ScheduleFromName(absl::string_view name);            // "serial", "parallel"

struct CompileOptions {
  std::string name;
  int64_t chunk = 1;
  int64_t context = 512;
  WeightFormat weights = WeightFormat::kF16;
  AttentionForm attention = AttentionForm::kWhole;
  // What the plan of a function's scratch allows: its operations in order only, or in any order
  // that their values allow.
  Schedule schedule = Schedule::kSerial;
  // Of the device that will run it: the same for all submodels of a model, so that they choose the
  // same recipes.
  DeviceTraits device = {};
  // False gives every value memory of its own: to prove that sharing changes no result.
  bool reuse = true;
};

absl::StatusOr<std::string> Compile(const Checkpoint& model, const CompileOptions& options);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_COMPILE_H_

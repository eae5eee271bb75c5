// Manifest: a submodel of another compiler, written down in JSON: its native functions, the calls
// that run them, and what each argument of a call is. This comment is the reference of the format.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto layers, ReadManifest("folder/layers.json", index));
//   NPUBANK_ASSIGN_OR_RETURN(auto group, SubmodelGroup::Register(npu, bank, {layers}, ""));
//   NPUBANK_RETURN_IF_ERROR(group->MakeFunctions());    // names, types, dims, counts: as the driver says them
//
//   {
//     "npubank_manifest": 1,
//     "name": "layers",
//     "model": "model.safetensors",
//     "functions": [{"name": "layer", "file": "layer.blob"}],
//     "values": [
//       {"name": "x", "type": "F32", "dims": [1, 64], "place": "input"},
//       {"name": "y", "type": "F32", "dims": [1, 64], "place": "output"},
//       {"name": "h", "type": "F32", "dims": [1, 64], "place": "arena", "offset": 0}
//     ],
//     "arena_bytes": 256,
//     "weights": [
//       {"name": "w0", "tensor": ["layers.0.weight", {"permute": [1, 0]}, {"convert": "F16"}]},
//       {"name": "w1", "tensor": ["layers.1.weight", {"permute": [1, 0]}, {"convert": "F16"}]}
//     ],
//     "calls": [
//       {"name": "first", "function": "layer", "arguments": [
//         {"name": "input", "value": "x"}, {"name": "weight", "weight": "w0"}, {"name": "output", "value": "h"}]},
//       {"name": "second", "function": "layer", "arguments": [
//         {"name": "input", "value": "h"}, {"name": "weight", "weight": "w1"}, {"name": "output", "value": "y"}]}
//     ]
//   }
//
// Keys; those with * must be there, and no others may be:
//   npubank_manifest *  1, the version of this format
//   name *              the submodel's, in messages and as the bank's owner
//   model               the stored tensors: a safetensors or GGUF file, or a folder, beside the manifest. Needed where
//                       the caller gives no index; ignored where it does
//   functions *         what the driver makes graphs of, each `name` * once and `file` *: its blob, beside the manifest
//   values              what arguments are bound to beside weights: `name` *, `type` * (as safetensors spells it, and
//                       I4, U4, NF4), `dims` *, and `place` *:
//                         "input"    given from outside       "state"    stays from run to run
//                         "output"   read afterwards          "arena"    at `offset` * in the arena
//                         "scratch"  at `offset` * in the arena: one call's, to write and read as it likes
//   arena_bytes         of the arena; 0 where it is not said. Offsets are multiples of 64
//   weights             `name` * and `tensor` *, in words: see below; `alignment`: what its address must be a multiple of,
//                       where the functions that take it want more than the device does of every argument: a power of two
//   calls *             in the order they run: `name` *, `function` *, and `arguments` * in the driver's order, each with
//                       the driver's `name` * and one of `value` or `weight`, the name of one above
//
// A file "beside the manifest" is the plain name of one in the same folder; nothing leads out of
// it.
//
// A tensor is a list of steps. The first says what there is:
//   "NAME"                                       a stored tensor; blocks of GGUF are rows of bytes, U8
//   {"concat": {"axis": 0, "of": [TENSOR, ...]}}
//   {"splat": {"type": "F16", "dims": [1], "bits": 15360}}
// and each of the others what is done to it (LazyTensor's operations; recipe.h has their rules):
//   {"slice": {"start": [0, 0], "size": [64, 64]}}
//   {"reshape": [64, 64]}   {"permute": [1, 0]}   {"convert": "F16"}
//   {"unpack": {"scale": TENSOR, "zero": TENSOR, "to": "F16"}}       zero may be missing
//   {"gather": {"table": TENSOR}}   {"shift": {}}
//   {"unpack_nibbles": "rows"}      or "columns", "columns_plus_one", "columns_awq", "bytes", "bytes_plus_one",
//                                   "byte_rows"
//   {"dequantize_blocks": {"format": "Q4_0", "to": "F16"}}
//   {"copy_block_plane": {"format": "Q4_0", "plane": "numbers"}}     or "scale", "min"
//
// Not a byte of a tensor is read here, and no file of the model stays open: the weights are
// described (lazy_tensor.h). Types and dims of arguments need not be said: they are those of what
// is bound, and the driver is asked whether they fit.
//
// A manifest is hostile until read: bounded in bytes, depth and numbers of everything. Errors are
// InvalidArgument that name the file and the place in it, such as
//   layers.json: value 'h': 'offset' must be a whole number from 0 to 70368744177664
//   layers.json: weight 'w0', step 2: permute: ...        what LazyTensor says of it
//   layers.json: call 'first', argument 'weight': there is no weight 'w7'
//   layers.json: 'colour' is not known
// also those of SubmodelDescription::Check: names that are there twice, places outside the arena,
// what no call uses. NotFound for a stored tensor, a function's file or a model that is not there;
// those of OpenIndex. What does not fit the driver MakeFunctions refuses, naming call and argument.
//
// Threads: pure functions. Cost: the functions' blobs are read into memory.
#ifndef NPUBANK_RUNTIME_MANIFEST_MANIFEST_H_
#define NPUBANK_RUNTIME_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/runtime/submodel_description.h"

namespace npubank {

class SourceIndex;  // lazy_tensor/sources/source_index.h

inline constexpr uint64_t kMostManifestBytes = 64 << 20;
inline constexpr uint64_t kMostFunctionBytes = uint64_t{1} << 30;  // of one function's file

// `index` has the stored tensors; null: the manifest's own "model" is opened.
absl::StatusOr<SubmodelDescription> ReadManifest(
    const std::string& path, std::shared_ptr<const SourceIndex> index = nullptr);

// The same of a text whose files somebody else has: `file` names it in messages, `read` gives a
// file beside it.
absl::StatusOr<SubmodelDescription> ParseManifest(
    absl::string_view text, const std::string& file, std::shared_ptr<const SourceIndex> index,
    absl::FunctionRef<absl::StatusOr<std::string>(const std::string& name)> read);

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MANIFEST_MANIFEST_H_

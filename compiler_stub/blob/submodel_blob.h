// SubmodelBlob: one compiled submodel (prefill, kvcache, ...) as the runtime reads it.
//
//   NPUBANK_ASSIGN_OR_RETURN(SubmodelBlob blob, ReadSubmodelBlob(bytes));
//   NPUBANK_ASSIGN_OR_RETURN(auto weights, RecipeList::Bind(blob.recipes, index));
//
// ReadSubmodelBlob checks everything: version and identifier, every function through
// ReadFunctionBlob, every binding's index and type against the function's argument, arena offsets
// and sizes (64-byte aligned, inside arena_bytes), unique names. Errors: InvalidArgument naming the
// submodel and the part. A value; it keeps nothing of `bytes`.
#ifndef NPUBANK_COMPILER_STUB_BLOB_SUBMODEL_BLOB_H_
#define NPUBANK_COMPILER_STUB_BLOB_SUBMODEL_BLOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/weight_form.h"

namespace npubank {

enum class BindingKind : uint8_t { kValue = 0, kWeight = 1, kScratch = 2 };
struct Binding {
  BindingKind kind = BindingKind::kValue;
  uint32_t index = 0;
};

enum class Placement : uint8_t { kArena = 0, kInput = 1, kOutput = 2, kState = 3 };
struct SubmodelValue {
  std::string name;
  TensorType type;
  Placement placement = Placement::kArena;
  uint64_t offset = 0;  // in the arena
};

struct SubmodelFunction {
  std::string name;
  std::string blob;   // what the driver gets
  Function function;  // the same, read
};

// One part of a stored weight (weight_form.h), bound to an argument of its own.
struct SubmodelWeight {
  std::string name;  // of the stored weight
  WeightPart part = WeightPart::kWeight;

  std::string ToString() const;  // "q_proj.weight", "q_proj.weight (scale)"
  friend bool operator==(const SubmodelWeight& a, const SubmodelWeight& b) {
    return a.name == b.name && a.part == b.part;
  }
};

struct Call {
  std::string name;
  uint32_t function = 0;
  std::vector<Binding> arguments;
  // The closure: the weights among `arguments`, each part by itself, in order.
  std::vector<uint32_t> Closure() const;
};

struct SubmodelBlob {
  std::string name;
  uint64_t chunk = 0;    // S
  uint64_t context = 0;  // N
  uint64_t vocabulary = 0;
  std::vector<SubmodelFunction> functions;
  std::vector<SubmodelValue> values;
  std::vector<SubmodelWeight> weights;  // recipe i of `recipes` makes weight i
  std::string recipes;                  // for RecipeList::Bind
  std::vector<Call> calls;              // in execution order
  uint64_t arena_bytes = 0;
  uint64_t scratch_offset = 0;
  uint64_t scratch_bytes = 0;
};

absl::StatusOr<SubmodelBlob> ReadSubmodelBlob(absl::string_view bytes);
std::string WriteSubmodelBlob(const SubmodelBlob& blob);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_SUBMODEL_BLOB_H_

// SubmodelDescription: a compiled submodel as the runtime runs it, whoever compiled it: native
// functions, the calls that run them, and what each argument of a call is bound to.
//
//   NPUBANK_ASSIGN_OR_RETURN(SubmodelDescription layers, ReadManifest("layers.json"));  // manifest/manifest.h
//   NPUBANK_ASSIGN_OR_RETURN(Submodel submodel, Submodel::Load(bank, layers, ""));      // submodel.h
//
// A manifest of another compiler's functions becomes one, and so does a blob of this project's
// compiler stub (compiled_submodel.h): from here on there is one path.
//
// What functions are is the driver's matter: a description has their bytes and the names of their
// arguments, in the driver's order. Weights are described (lazy_tensor.h): no byte of them is read
// here.
//
// A value; copies share the weights' recipes. Threads: plain data. Errors: Check is what must hold
// whatever the driver says; CheckAgainstDriver what must hold of its functions. Both are
// InvalidArgument, naming the call and the argument.
#ifndef NPUBANK_RUNTIME_SUBMODEL_DESCRIPTION_H_
#define NPUBANK_RUNTIME_SUBMODEL_DESCRIPTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/runtime/driver_function.h"

namespace npubank {

struct SubmodelDescription {
  static constexpr uint64_t kPlaceAlignment = 64;                 // of places in the arena
  static constexpr uint64_t kMostArenaBytes = uint64_t{1} << 46;  // more than any device addresses

  enum class Placement : uint8_t {
    kInput,    // given from outside before each run
    kOutput,   // read from outside after it
    kState,    // stays from run to run; submodels of one group share those of equal names
    kArena,    // at `offset` in the arena, from the call that writes it to the last that reads it
    kScratch,  // at `offset` in the arena, for one call to write and read as it likes
  };
  struct Value {
    std::string name;
    TensorType type;
    Placement placement = Placement::kArena;
    uint64_t offset = 0;  // of kArena and kScratch
  };
  struct Function {
    std::string name;
    std::string blob;  // what the driver gets
  };
  struct Argument {
    std::string name;  // as the driver has it
    bool weight = false;
    uint32_t index = 0;  // into weights, or into values
  };
  struct Call {
    std::string name;
    uint32_t function = 0;
    std::vector<Argument> arguments;  // in the driver's order
  };

  std::string name;
  std::vector<Function> functions;
  std::vector<Value> values;
  std::vector<std::string> weights;           // names; root i of `recipes` makes weight i
  std::vector<uint64_t> weight_alignments;    // of each one's address; empty: what the device gives
  std::shared_ptr<const RecipeList> recipes;  // null where there are no weights
  std::vector<Call> calls;                    // in the order they run
  uint64_t arena_bytes = 0;

  const TensorType& TypeOf(const Argument& argument) const {
    return argument.weight ? recipes->type(argument.index) : values[argument.index].type;
  }

  // - Names are there and distinct within their kind; every index is one.
  // - Places in the arena are aligned to kPlaceAlignment and lie inside it; no value is empty.
  // - Every weight has an alignment, or none of them.
  // - Every function is called, and every value and weight bound to a call.
  absl::Status Check() const;

  // Of a description that Check accepts; functions[i] is what the driver made of function i.
  // - Every call binds as many arguments as its function has, of their names and types.
  // - Outputs are bound to outputs, states, and places in the arena; inputs not to outputs.
  // - What a call reads of the arena was written before, and nothing was written over it since. A
  // call
  //   may write an output exactly where it reads an input, and over nothing else that it uses.
  absl::Status CheckAgainstDriver(absl::Span<const DriverFunction> driver) const;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_SUBMODEL_DESCRIPTION_H_

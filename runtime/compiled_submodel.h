// CompiledSubmodel: a blob of this project's compiler stub, as the runtime runs it.
//
//   NPUBANK_ASSIGN_OR_RETURN(CompiledSubmodel prefill, ReadCompiledSubmodel(blob, index));
//   NPUBANK_ASSIGN_OR_RETURN(Submodel submodel, Submodel::Load(bank, prefill.description, ""));
//
// The one place of the runtime that knows the stub's blobs. Scratch, which a blob has once for all
// functions, becomes a value for each function that takes it.
//
// A value. Threads: a pure function. Errors: those of ReadSubmodelBlob and RecipeList::Bind, naming
// the submodel and the part.
#ifndef NPUBANK_RUNTIME_COMPILED_SUBMODEL_H_
#define NPUBANK_RUNTIME_COMPILED_SUBMODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/runtime/submodel_description.h"

namespace npubank {

class SourceIndex;  // lazy_tensor/sources/source_index.h

struct CompiledSubmodel {
  SubmodelDescription description;
  uint64_t chunk = 0;    // positions per run
  uint64_t context = 0;  // positions in the cache
  uint64_t vocabulary = 0;
};

absl::StatusOr<CompiledSubmodel> ReadCompiledSubmodel(absl::string_view blob,
                                                      std::shared_ptr<const SourceIndex> index);

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_COMPILED_SUBMODEL_H_

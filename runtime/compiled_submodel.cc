#include "npubank/runtime/compiled_submodel.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

SubmodelDescription::Placement PlacementOf(Placement placement) {
  switch (placement) {
    case Placement::kInput:
      return SubmodelDescription::Placement::kInput;
    case Placement::kOutput:
      return SubmodelDescription::Placement::kOutput;
    case Placement::kState:
      return SubmodelDescription::Placement::kState;
    case Placement::kArena:
      break;
  }
  return SubmodelDescription::Placement::kArena;
}

// The blob's calls over the description's values.
class CallTranslator {
 public:
  CallTranslator(const SubmodelBlob& blob, SubmodelDescription& to)
      : blob_(blob), to_(to), scratch_(blob.functions.size()) {}

  SubmodelDescription::Call Translate(const Call& call) {
    const std::vector<FunctionArgument>& taken = blob_.functions[call.function].function.arguments;
    SubmodelDescription::Call made{call.name, call.function, {}};
    for (size_t i = 0; i < taken.size(); ++i) {
      const Binding& binding = call.arguments[i];
      const uint32_t index = binding.kind == BindingKind::kScratch
                                 ? Scratch(call.function, taken[i].type)
                                 : binding.index;
      made.arguments.push_back({taken[i].name, binding.kind == BindingKind::kWeight, index});
    }
    return made;
  }

 private:
  uint32_t Scratch(uint32_t function, const TensorType& type) {
    if (!scratch_[function]) {
      scratch_[function] = static_cast<uint32_t>(to_.values.size());
      to_.values.push_back({absl::StrCat("scratch of ", blob_.functions[function].name), type,
                            SubmodelDescription::Placement::kScratch, blob_.scratch_offset});
    }
    return *scratch_[function];
  }

  const SubmodelBlob& blob_;
  SubmodelDescription& to_;
  std::vector<std::optional<uint32_t>> scratch_;  // the value's number, by function
};

absl::StatusOr<CompiledSubmodel> Describe(SubmodelBlob blob,
                                          std::shared_ptr<const SourceIndex> index) {
  CompiledSubmodel made;
  made.chunk = blob.chunk;
  made.context = blob.context;
  made.vocabulary = blob.vocabulary;
  SubmodelDescription& to = made.description;
  to.name = blob.name;
  to.arena_bytes = blob.arena_bytes;
  NPUBANK_ASSIGN_OR_RETURN(to.recipes, RecipeList::Bind(blob.recipes, std::move(index)));
  for (const SubmodelWeight& weight : blob.weights) to.weights.push_back(weight.ToString());
  for (const SubmodelValue& value : blob.values)
    to.values.push_back({value.name, value.type, PlacementOf(value.placement), value.offset});
  CallTranslator calls(blob, to);
  for (const Call& call : blob.calls) to.calls.push_back(calls.Translate(call));
  for (SubmodelFunction& function : blob.functions)
    to.functions.push_back({function.name, std::move(function.blob)});
  return made;
}

}  // namespace

absl::StatusOr<CompiledSubmodel> ReadCompiledSubmodel(absl::string_view blob,
                                                      std::shared_ptr<const SourceIndex> index) {
  NPUBANK_ASSIGN_OR_RETURN(SubmodelBlob read, ReadSubmodelBlob(blob));
  const std::string name = read.name;
  absl::StatusOr<CompiledSubmodel> made = Describe(std::move(read), std::move(index));
  if (!made.ok()) return Annotate(made.status(), absl::StrCat("submodel '", name, "'"));
  return made;
}

}  // namespace npubank

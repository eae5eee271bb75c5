// Recipe codec: recipes to bytes and back, so that a compiled submodel can carry its closures
// without their weights.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::string bytes, EncodeRecipes({wq, wk}));
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<RecipePtr> again,
//       DecodeRecipes(bytes, [&](absl::string_view name) { return checkpoint.Find(name); }));
//
// A Constant is written as its name and type only; on reading, `leaf` turns the name into a recipe
// again (the checkpoint's tensor). Sub-recipes shared by several roots are written once and shared
// again. The same bytes always come from the same recipes. Decoded against the same checkpoint the
// digests agree.
//
// Format: recipe.fbs, verified before use; version, depth and count are bounded; an operation this
// reader does not know is Unimplemented with its number. Operation numbers are never reused.
// Errors: InvalidArgument for bytes that are not a recipe list, or for a leaf of another type than
// was written (names the tensor and both types); whatever `leaf` returns.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_CODEC_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_CODEC_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/recipe.h"

namespace npubank {

absl::StatusOr<std::string> EncodeRecipes(absl::Span<const RecipePtr> roots);

absl::StatusOr<std::vector<RecipePtr>> DecodeRecipes(
    absl::string_view bytes,
    absl::FunctionRef<absl::StatusOr<RecipePtr>(absl::string_view name)> leaf);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_CODEC_H_

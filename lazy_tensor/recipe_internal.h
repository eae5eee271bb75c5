// What the makers of recipes share. Internal to recipe*.cc.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_INTERNAL_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_INTERNAL_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/recipe.h"

namespace npubank::internal {

inline absl::Status CheckInput(absl::string_view operation, const RecipePtr& input) {
  if (input != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation, " of no tensor"));
}

// A digest of the operation and its inputs; the caller adds what else counts.
inline DigestBuilder BuilderFor(absl::string_view operation, absl::Span<const RecipePtr> inputs) {
  DigestBuilder builder(operation);
  builder.Add(static_cast<int64_t>(inputs.size()));
  for (const RecipePtr& input : inputs) builder.Add(input->digest());
  return builder;
}

}  // namespace npubank::internal

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_INTERNAL_H_

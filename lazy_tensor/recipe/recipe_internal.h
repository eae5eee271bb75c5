// What the makers and the readers of recipes share. Internal to recipe*.cc.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_INTERNAL_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_INTERNAL_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank::internal {

inline absl::Status CheckInput(absl::string_view operation, const RecipePtr& input) {
  if (input != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation, " of no tensor"));
}

// Descriptions are for people: a long one ends in "...".
inline constexpr size_t kMaxDescription = 2000;

// A node's description behind its inputs', which `append` puts into `text`. Stops when the text is long
// enough: shared sub-recipes may repeat without end.
template <typename Inputs, typename Append>
void AppendDescription(const Inputs& inputs, Append append, const std::string& words,
                       std::string& text) {
  const bool several = inputs.size() > 1;
  if (several) text += '(';
  absl::string_view separator = "";
  for (const auto& input : inputs) {
    if (text.size() > kMaxDescription) return;
    absl::StrAppend(&text, separator);
    append(input, text);
    separator = ", ";
  }
  if (several) text += ')';
  if (!inputs.empty()) text += " -> ";
  text += words;
}

inline std::string Shortened(std::string text) {
  if (text.size() <= kMaxDescription) return text;
  text.resize(kMaxDescription);
  return text + "...";
}

}  // namespace npubank::internal

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_INTERNAL_H_

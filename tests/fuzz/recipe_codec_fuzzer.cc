// Any bytes as a recipe list: refused with a Status, or recipes that describe themselves, encode
// again to a list with the same digests, and evaluate when they are small.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe_codec.h"

namespace npubank {
namespace {

constexpr int64_t kSmall = 1 << 16;

// The leaf's name is its type, as in "U8:6,4": the fuzzer can ask for any tensor of zeros.
absl::StatusOr<RecipePtr> Leaf(absl::string_view name) {
  static const std::shared_ptr<Source> source =
      Source::FromBuffer(std::vector<std::byte>(kSmall), "zeros");
  const std::string text(name);
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return absl::NotFoundError("no such tensor");
  const std::optional<ElementType> element = ElementTypeFromName(text.substr(0, colon));
  if (!element) return absl::NotFoundError("no such type");
  std::vector<int64_t> dims;
  for (size_t at = colon; at < text.size(); at = text.find(',', at + 1)) {
    if (dims.size() > Shape::kMaxRank) return absl::NotFoundError("too long");
    dims.push_back(std::strtol(text.c_str() + at + 1, nullptr, 10));
  }
  const absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) return shape.status();
  const absl::StatusOr<TensorType> type = TensorType::Create(*element, *shape);
  if (!type.ok()) return type.status();
  return Recipe::Constant(source, 0, *type, text);
}

void Use(const RecipePtr& recipe) {
  recipe->Describe();
  if (recipe->type().bytes() > kSmall || recipe->depth() > 8) return;
  std::vector<std::byte> out(static_cast<size_t>(recipe->type().bytes()));
  if (!Evaluate(*recipe, absl::MakeSpan(out), {}).ok()) std::abort();
}

}  // namespace
}  // namespace npubank

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<std::vector<RecipePtr>> recipes = DecodeRecipes(bytes, Leaf);
  if (!recipes.ok()) return 0;
  for (const RecipePtr& recipe : *recipes) Use(recipe);
  const absl::StatusOr<std::string> again = EncodeRecipes(*recipes);
  if (!again.ok()) return 0;  // names of too many bytes, for example
  const absl::StatusOr<std::vector<RecipePtr>> back = DecodeRecipes(*again, Leaf);
  if (!back.ok() || back->size() != recipes->size()) std::abort();
  for (size_t i = 0; i < back->size(); ++i) {
    if ((*back)[i]->digest() != (*recipes)[i]->digest()) std::abort();
  }
  return 0;
}

// RandomRecipe: random chains of operations over small random sources, for property tests.
//
//   RandomRecipes random(seed);
//   RecipePtr recipe = random.Make(/*steps=*/5);
#ifndef NPUBANK_TESTS_SUPPORT_WEIGHTS_RANDOM_RECIPE_H_
#define NPUBANK_TESTS_SUPPORT_WEIGHTS_RANDOM_RECIPE_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank::testing {

class RandomRecipes {
 public:
  // Tensors stay near `max_elements`.
  explicit RandomRecipes(uint64_t seed, int64_t max_elements = 6000)
      : random_(seed), max_elements_(max_elements) {}

  // A Constant over a new buffer or file, then up to `steps` operations. Every Constant has a name.
  RecipePtr Make(int steps);

  // The same after up to `steps` more operations.
  RecipePtr Extend(RecipePtr recipe, int steps);

  // The Constants made so far, by name.
  const std::map<std::string, RecipePtr>& constants() const { return constants_; }

  // In [low, high].
  int64_t Pick(int64_t low, int64_t high);

 private:
  RecipePtr Constant();
  RecipePtr Step(RecipePtr recipe);
  RecipePtr Concat(RecipePtr recipe);
  RecipePtr Slice(RecipePtr recipe);
  RecipePtr Reshape(RecipePtr recipe);
  RecipePtr Permute(RecipePtr recipe);
  RecipePtr Convert(RecipePtr recipe);
  RecipePtr Splat(RecipePtr recipe);
  RecipePtr Unpack(RecipePtr recipe);
  RecipePtr Gather(RecipePtr recipe);
  RecipePtr GatherRows(RecipePtr recipe);
  RecipePtr UnpackNibbles(RecipePtr recipe);
  RecipePtr DequantizeBlocks(RecipePtr recipe);
  RecipePtr CopyBlockPlane(RecipePtr recipe);

  RecipePtr ConstantOf(ElementType element, const std::vector<int64_t>& dims);
  ElementType AnyOf(const std::vector<ElementType>& types);

  std::mt19937_64 random_;
  const int64_t max_elements_;
  std::vector<TemporaryFile> files_;
  std::map<std::string, RecipePtr> constants_;
};

}  // namespace npubank::testing

#endif  // NPUBANK_TESTS_SUPPORT_WEIGHTS_RANDOM_RECIPE_H_

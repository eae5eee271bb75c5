// Random chains of operations: whatever the tiles, threads and scratch, the bytes are those of the
// plain whole-tensor reference. A failure prints the seed; set NPUBANK_SEED to it to see the
// failure again.
#include <gtest/gtest.h>

#include <algorithm>

#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/weights/random_recipe.h"
#include "npubank/tests/support/weights/reference_evaluate.h"

namespace npubank {
namespace {

using testing::RandomRecipes;
using testing::ReferenceEvaluate;
using testing::SameElements;
using Bytes = std::vector<std::byte>;

constexpr int kRecipes = 6000;
constexpr int kLargeRecipes = 250;  // of several tiles

// Runs `check` for many seeds, up to the first that fails.
template <typename Check>
void ForEachSeed(int recipes, Check check) {
  const uint64_t first = PrintedSeed();
  const auto count = static_cast<uint64_t>(Repetitions(recipes));
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("NPUBANK_SEED=" + std::to_string(seed));
    check(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

// What evaluation leaves unwritten shows as this.
Bytes Untouched(size_t size) { return Bytes(size, std::byte{0xa5}); }

void ExpectReferenceOnAnyWorkers(RandomRecipes& random) {
  static ThreadWorkers inline_only(0);
  static ThreadWorkers two(2);
  const RecipePtr recipe = random.Make(static_cast<int>(random.Pick(0, 7)));
  SCOPED_TRACE(recipe->Describe());
  const Bytes expected = ReferenceEvaluate(*recipe);
  for (Workers* workers : std::initializer_list<Workers*>{nullptr, &inline_only, &two}) {
    EvaluateOptions options;
    options.workers = workers;
    options.scratch_bytes = size_t{1} << random.Pick(0, 22);
    Bytes out = Untouched(expected.size());
    ASSERT_EQ(Evaluate(*recipe, absl::MakeSpan(out), options), absl::OkStatus());
    ASSERT_TRUE(SameElements(recipe->type(), out, expected));
  }
}

TEST(EvaluateProperty, TheResultIsTheReferenceWhateverTheThreadsAndTheScratch) {
  ForEachSeed(kRecipes, [&](uint64_t seed) {
    RandomRecipes random(seed);
    ExpectReferenceOnAnyWorkers(random);
  });
}

TEST(EvaluateProperty, TensorsOfSeveralTilesToo) {
  ForEachSeed(kLargeRecipes, [&](uint64_t seed) {
    RandomRecipes random(seed, 300000);
    ExpectReferenceOnAnyWorkers(random);
  });
}

TEST(EvaluateProperty, PiecesOfARangeMakeTheWhole) {
  ForEachSeed(kRecipes, [&](uint64_t seed) {
    RandomRecipes random(seed);
    const RecipePtr recipe = random.Make(static_cast<int>(random.Pick(0, 7)));
    SCOPED_TRACE(recipe->Describe());
    const Bytes expected = ReferenceEvaluate(*recipe);
    const int64_t unit = std::max(1, BitWidth(recipe->type().element()) / 8);
    const auto units = static_cast<int64_t>(expected.size()) / unit;
    Bytes out = Untouched(expected.size());
    for (int64_t begin = 0; begin < units;) {
      const int64_t count = random.Pick(1, units - begin);
      const auto offset = static_cast<size_t>(begin * unit);
      ASSERT_EQ(
          EvaluateRange(*recipe, offset,
                        absl::MakeSpan(out).subspan(offset, static_cast<size_t>(count * unit)), {}),
          absl::OkStatus());
      begin += count;
    }
    ASSERT_TRUE(SameElements(recipe->type(), out, expected));
  });
}

}  // namespace
}  // namespace npubank

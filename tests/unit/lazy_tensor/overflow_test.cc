// Numbers that F16 cannot hold: where a recipe makes F16 of them, evaluating it is an error that names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kColumns = 700;
constexpr int64_t kRows = 200;  // more than two pieces

// F32[200,700] or BF16, all of them F16's largest but for one, or for all from there on.
RecipePtr Stored(ElementType element, int64_t row, int64_t column, float number,
                 bool and_all_behind = false) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t at = row * kColumns + column;
    const float value = i == at || (and_all_behind && i > at) ? number : element == ElementType::kF32 ? 65504 : -65280;
    const auto bits = std::bit_cast<uint32_t>(value);
    const size_t size = element == ElementType::kF32 ? 4 : 2;
    const auto* const end = reinterpret_cast<const std::byte*>(&bits) + sizeof(bits);
    bytes.insert(bytes.end(), end - size, end);  // of BF16 the upper half
  }
  const auto type = TensorType::Create(element, *Shape::Create({kRows, kColumns}));
  return *Recipe::Constant(Source::FromBuffer(std::move(bytes), "x"), 0, *type, "up_proj");
}

absl::Status Check(const RecipePtr& recipe, Workers* workers = nullptr) {
  std::vector<std::byte> out(recipe->type().bytes());
  return Evaluate(*recipe, absl::MakeSpan(out), {.workers = workers, .f16_must_hold = true});
}

TEST(Overflow, ANumberThatF16CannotHoldIsNamedWithItsPlace) {
  for (const ElementType element : {ElementType::kF32, ElementType::kBF16}) {
    const RecipePtr stored = Stored(element, 123, 456, -98304);
    for (const RecipePtr& recipe :
         {*Recipe::Convert(stored, ElementType::kF16),
          *Recipe::Convert(*Recipe::Permute(stored, {1, 0}), ElementType::kF16),
          *Recipe::Permute(*Recipe::Convert(stored, ElementType::kF16), {1, 0}),
          *Recipe::Reshape(*Recipe::Convert(stored, ElementType::kF16), {kRows * kColumns})}) {
      const absl::Status status = Check(recipe);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << recipe->Describe();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("tensor 'up_proj', " + stored->type().ToString() + ", has -98304 at [123,456]"));
    }
  }
}

TEST(Overflow, OfSeveralTheFirstIsNamedWhoeverLooks) {
  ThreadWorkers workers(3);
  for (const int64_t row : {0, 57, 199}) {
    const RecipePtr stored = Stored(ElementType::kF32, row, 300, 1e30f, /*and_all_behind=*/true);
    const RecipePtr made = *Recipe::Convert(stored, ElementType::kF16);
    for (Workers* const who : {static_cast<Workers*>(nullptr), static_cast<Workers*>(&workers)}) {
      EXPECT_THAT(std::string(Check(made, who).message()),
                  HasSubstr("has 1e+30 at [" + std::to_string(row) + ",300]"));
    }
  }
}

TEST(Overflow, BeginsWhereRoundingDoes) {
  const auto status = [](float number) {
    return Check(*Recipe::Convert(Stored(ElementType::kF32, 1, 2, number), ElementType::kF16));
  };
  EXPECT_TRUE(status(65504).ok());
  EXPECT_TRUE(status(-65519.99f).ok()) << "rounds to 65504";
  EXPECT_FALSE(status(65520).ok()) << "rounds to an infinity";
  EXPECT_FALSE(status(std::numeric_limits<float>::max()).ok());
  EXPECT_TRUE(status(std::numeric_limits<float>::infinity()).ok()) << "is one already";
  EXPECT_TRUE(status(std::numeric_limits<float>::quiet_NaN()).ok());
  EXPECT_FALSE(
      Check(*Recipe::Convert(Stored(ElementType::kBF16, 0, 0, 65536), ElementType::kF16)).ok());
}

TEST(Overflow, WhatIsPutTogetherBeforeItIsF16IsLookedAtToo) {
  const RecipePtr stored = Stored(ElementType::kBF16, 123, 456, 98304);
  const RecipePtr slice = *Recipe::Slice(stored, {120, 400}, {5, 100});
  EXPECT_THAT(std::string(Check(*Recipe::Convert(slice, ElementType::kF16)).message()),
              HasSubstr("what is made of tensor 'up_proj', BF16[5,100], has 98304 at [3,56]"));
  const RecipePtr twice = *Recipe::Concat({slice, slice}, 1);
  EXPECT_THAT(std::string(Check(*Recipe::Convert(twice, ElementType::kF16)).message()),
              HasSubstr("BF16[5,200], has 98304 at [3,56]"));
  const RecipePtr wide = *Recipe::Convert(stored, ElementType::kF32);
  EXPECT_THAT(std::string(Check(*Recipe::Convert(wide, ElementType::kF16)).message()),
              HasSubstr("has 98304 at [123,456]"));
}

TEST(Overflow, WhoDoesNotAskGetsTheLargest) {
  const RecipePtr stored = *Recipe::Convert(Stored(ElementType::kBF16, 0, 0, 98304), ElementType::kF16);
  std::vector<std::byte> out(stored->type().bytes());
  ASSERT_TRUE(Evaluate(*stored, absl::MakeSpan(out), {}).ok());
  EXPECT_EQ(out[0], std::byte{0xFF});
  EXPECT_EQ(out[1], std::byte{0x7B});
}

TEST(Overflow, WhatBecomesNoF16IsNotLookedAt) {
  const RecipePtr stored = Stored(ElementType::kBF16, 1, 2, 1e30f);
  EXPECT_TRUE(Check(stored).ok());
  EXPECT_TRUE(Check(*Recipe::Convert(stored, ElementType::kF32)).ok());
  EXPECT_TRUE(Check(*Recipe::Slice(*Recipe::Convert(stored, ElementType::kF16), {10, 0}, {5, 5})).ok());
}

}  // namespace
}  // namespace npubank

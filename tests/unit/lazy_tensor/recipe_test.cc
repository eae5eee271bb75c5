#include "npubank/lazy_tensor/recipe/recipe.h"

#include <gtest/gtest.h>

#include <set>

#include "npubank/tests/support/weights/fake_source.h"

namespace npubank {
namespace {

using testing::FakeSource;

std::shared_ptr<Source> Fake(uint64_t identity, size_t size = 1 << 16) {
  return std::make_shared<FakeSource>(std::vector<std::byte>(size), Digest{identity, 0});
}

TensorType Type(ElementType element, const std::vector<int64_t>& dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

RecipePtr Matrix() { return *Recipe::Constant(Fake(1), 64, Type(ElementType::kBF16, {6, 4}), "w"); }

// Tensors on `base` that the operations that compute take.
RecipePtr Bytes(const RecipePtr& base) { return *Recipe::Convert(base, ElementType::kU8); }
RecipePtr Words(const RecipePtr& base) { return *Recipe::Convert(base, ElementType::kI32); }
RecipePtr Rows(const RecipePtr& base) {
  return *Recipe::Reshape(*Recipe::Concat({Bytes(base), Bytes(base), Bytes(base)}, 0), {4, 18});
}
RecipePtr Table(const RecipePtr& base) {
  const RecipePtr row = *Recipe::Reshape(base, {24});
  const RecipePtr long_row = *Recipe::Concat(std::vector<RecipePtr>(11, row), 0);
  return *Recipe::Slice(long_row, {0}, {256});
}

TEST(Recipe, InfersTypesWithoutReadingAByte) {
  const auto source = std::make_shared<FakeSource>(std::vector<std::byte>(4096), Digest{1, 0});
  const RecipePtr stored = *Recipe::Constant(source, 0, Type(ElementType::kBF16, {6, 4}), "w");
  const RecipePtr transposed = *Recipe::Permute(stored, {1, 0});
  EXPECT_EQ(transposed->type(), Type(ElementType::kBF16, {4, 6}));
  const RecipePtr twice = *Recipe::Concat({transposed, transposed}, 0);
  EXPECT_EQ(twice->type(), Type(ElementType::kBF16, {8, 6}));
  const RecipePtr half = *Recipe::Convert(twice, ElementType::kF16);
  EXPECT_EQ(half->type(), Type(ElementType::kF16, {8, 6}));
  const RecipePtr part = *Recipe::Slice(half, {2, 3}, {5, 2});
  EXPECT_EQ(part->type(), Type(ElementType::kF16, {5, 2}));
  const RecipePtr flat = *Recipe::Reshape(part, {10});
  EXPECT_EQ(flat->type(), Type(ElementType::kF16, {10}));
  EXPECT_EQ(flat->depth(), 6);
  EXPECT_EQ(flat->SourceBytes(), 48u);
  EXPECT_TRUE(flat->Persistent());
  EXPECT_EQ(source->reads(), 0);
}

TEST(Recipe, SaysInWordsWhatItDoes) {
  const RecipePtr half = *Recipe::Convert(*Recipe::Permute(Matrix(), {1, 0}), ElementType::kF16);
  EXPECT_EQ(half->Describe(), "w BF16[6,4] -> permute(1,0) -> convert(F16)");
  const RecipePtr both = *Recipe::Concat({half, half}, 1);
  EXPECT_EQ(both->Describe(),
            "(w BF16[6,4] -> permute(1,0) -> convert(F16), "
            "w BF16[6,4] -> permute(1,0) -> convert(F16)) -> concat(1)");
}

TEST(Recipe, DescribesDeepSharingInBoundedTimeAndLength) {
  RecipePtr recipe = *Recipe::Constant(Fake(1), 0, Type(ElementType::kU8, {1}), "byte");
  for (int i = 0; i < 60; ++i) recipe = *Recipe::Concat({recipe, recipe}, 0);
  EXPECT_LE(recipe->Describe().size(), 2100u);
  EXPECT_EQ(recipe->SourceBytes(), 1u);
}

TEST(Recipe, AnOperationThatChangesNothingIsItsInput) {
  const RecipePtr w = Matrix();
  EXPECT_EQ(*Recipe::Concat({w}, 0), w);
  EXPECT_EQ(*Recipe::Slice(w, {0, 0}, {6, 4}), w);
  EXPECT_EQ(*Recipe::Reshape(w, {6, 4}), w);
  EXPECT_EQ(*Recipe::Permute(w, {0, 1}), w);
  EXPECT_EQ(*Recipe::Convert(w, ElementType::kBF16), w);
}

TEST(Recipe, PermutesInARowAreOneOrNone) {
  const RecipePtr cube = *Recipe::Reshape(Matrix(), {2, 3, 4});
  const RecipePtr once = *Recipe::Permute(cube, {1, 2, 0});
  EXPECT_EQ(*Recipe::Permute(once, {2, 0, 1}), cube) << "two that cancel out";
  const RecipePtr twice = *Recipe::Permute(once, {1, 2, 0});
  EXPECT_EQ(twice->digest(), (*Recipe::Permute(cube, {2, 0, 1}))->digest());
  EXPECT_EQ(twice->depth(), once->depth());
  EXPECT_EQ(twice->type().ToString(), "BF16[4,2,3]");
}

TEST(Recipe, TheSameStructureHasTheSameDigest) {
  const auto build = [] {
    return *Recipe::Convert(*Recipe::Permute(Matrix(), {1, 0}), ElementType::kF32);
  };
  EXPECT_EQ(build()->digest(), build()->digest());
}

TEST(Recipe, TheNameIsNotPartOfTheIdentity) {
  const auto named = [](const std::string& name) {
    return (*Recipe::Constant(Fake(1), 64, Type(ElementType::kBF16, {6, 4}), name))->digest();
  };
  EXPECT_EQ(named("a"), named("b"));
}

// Every difference of structure there is, each against each.
TEST(Recipe, DifferentStructuresHaveDifferentDigests) {
  const RecipePtr w = Matrix();
  const RecipePtr v = *Recipe::Constant(Fake(2), 64, Type(ElementType::kBF16, {6, 4}), "w");
  const std::vector<RecipePtr> all = {
      w,
      v,
      *Recipe::Constant(Fake(1), 66, Type(ElementType::kBF16, {6, 4}), "w"),
      *Recipe::Constant(Fake(1), 64, Type(ElementType::kF16, {6, 4}), "w"),
      *Recipe::Constant(Fake(1), 64, Type(ElementType::kBF16, {4, 6}), "w"),
      *Recipe::Constant(Fake(1), 64, Type(ElementType::kBF16, {24}), "w"),
      *Recipe::Constant(Fake(1), 64, Type(ElementType::kBF16, {6, 4, 1}), "w"),
      *Recipe::Concat({w, v}, 0),
      *Recipe::Concat({v, w}, 0),
      *Recipe::Concat({w, v}, 1),
      *Recipe::Concat({w, w}, 0),
      *Recipe::Concat({w, w, w}, 0),
      *Recipe::Concat({*Recipe::Concat({w, w}, 0), w}, 0),
      *Recipe::Concat({w, *Recipe::Concat({w, w}, 0)}, 0),
      *Recipe::Slice(w, {0, 0}, {3, 4}),
      *Recipe::Slice(w, {3, 0}, {3, 4}),
      *Recipe::Slice(w, {0, 0}, {6, 2}),
      *Recipe::Slice(w, {0, 1}, {6, 2}),
      *Recipe::Reshape(w, {4, 6}),
      *Recipe::Reshape(w, {24}),
      *Recipe::Reshape(w, {2, 12}),
      *Recipe::Permute(w, {1, 0}),
      *Recipe::Reshape(*Recipe::Permute(w, {1, 0}), {6, 4}),
      *Recipe::Permute(*Recipe::Reshape(w, {4, 6}), {1, 0}),
      *Recipe::Convert(w, ElementType::kF16),
      *Recipe::Convert(w, ElementType::kF32),
      *Recipe::Convert(*Recipe::Convert(w, ElementType::kF16), ElementType::kF32),
      *Recipe::Permute(*Recipe::Convert(w, ElementType::kF16), {1, 0}),
      *Recipe::Convert(*Recipe::Permute(w, {1, 0}), ElementType::kF16),
      *Recipe::Splat(Type(ElementType::kBF16, {6, 4}), 0),
      *Recipe::Splat(Type(ElementType::kBF16, {6, 4}), 1),
      *Recipe::Splat(Type(ElementType::kF16, {6, 4}), 0),
      *Recipe::Splat(Type(ElementType::kBF16, {4, 6}), 0),
      *Recipe::Unpack(w, w, nullptr, ElementType::kF16),
      *Recipe::Unpack(w, v, nullptr, ElementType::kF16),
      *Recipe::Unpack(v, w, nullptr, ElementType::kF16),
      *Recipe::Unpack(w, w, nullptr, ElementType::kF32),
      *Recipe::Unpack(w, w, w, ElementType::kF32),
      *Recipe::Unpack(w, w, v, ElementType::kF32),
      *Recipe::Gather(Bytes(w), Table(w)),
      *Recipe::Gather(Bytes(w), Table(v)),
      *Recipe::Gather(Bytes(v), Table(w)),
      *Recipe::Shift(Bytes(w)),
      *Recipe::UnpackNibbles(Words(w), NibbleLayout::kRows),
      *Recipe::UnpackNibbles(Words(w), NibbleLayout::kColumns),
      *Recipe::UnpackNibbles(Words(w), NibbleLayout::kColumnsPlusOne),
      *Recipe::UnpackNibbles(Words(w), NibbleLayout::kColumnsAwq),
      *Recipe::UnpackNibbles(Words(w), NibbleLayout::kBytes),
      *Recipe::DequantizeBlocks(Rows(w), kernels::BlockFormat::kQ4_0, ElementType::kF16),
      *Recipe::DequantizeBlocks(Rows(w), kernels::BlockFormat::kIQ4_NL, ElementType::kF16),
      *Recipe::DequantizeBlocks(Rows(w), kernels::BlockFormat::kQ4_0, ElementType::kF32),
      *Recipe::CopyBlockPlane(Rows(w), kernels::BlockFormat::kQ4_0, kernels::BlockPlane::kNumbers),
      *Recipe::CopyBlockPlane(Rows(w), kernels::BlockFormat::kQ4_0, kernels::BlockPlane::kScale),
  };
  std::set<Digest> digests;
  for (size_t i = 0; i < all.size(); ++i) {
    digests.insert(all[i]->digest());
    EXPECT_EQ(digests.size(), i + 1) << "twice: " << i << " " << all[i]->Describe();
  }
}

// These are in files of users (caches, snapshots): they may never change.
TEST(Recipe, DigestsAreTheSameInEveryProcessAndVersion) {
  const RecipePtr w = Matrix();
  EXPECT_EQ(w->digest().ToHex(), "4d11a5a37ccb2b712ff7da7cfd7cdf0a");
  const RecipePtr all = *Recipe::Convert(
      *Recipe::Reshape(
          *Recipe::Slice(
              *Recipe::Concat({*Recipe::Permute(w, {1, 0}), *Recipe::Permute(w, {1, 0})}, 0),
              {1, 2}, {4, 3}),
          {2, 6}),
      ElementType::kF32);
  EXPECT_EQ(all->digest().ToHex(), "ed6f93464acd36dd0faf6029d48ecf21");
}

TEST(Recipe, DigestsOfOperationsThatComputeAreTheSameToo) {
  const RecipePtr w = Matrix();
  const RecipePtr gathered = *Recipe::Gather(*Recipe::Shift(*Recipe::Shift(Bytes(w))), Table(w));
  EXPECT_EQ(gathered->digest().ToHex(), "a6195357b69b90ca6111a98bbfdc2171");
  const RecipePtr nibbles = *Recipe::UnpackNibbles(Words(w), NibbleLayout::kColumnsAwq);
  const RecipePtr scale = *Recipe::Splat(Type(ElementType::kF32, {6, 1}), 0x3f800000);
  EXPECT_EQ((*Recipe::Unpack(nibbles, scale, nullptr, ElementType::kF16))->digest().ToHex(),
            "1ae8a847d3111d7abfe542d3179f5cb8");
  EXPECT_EQ((*Recipe::DequantizeBlocks(Rows(w), kernels::BlockFormat::kQ4_0, ElementType::kF16))
                ->digest()
                .ToHex(),
            "f5a2ac31a92a7aedb1ba87f1ab4a8868");
  EXPECT_EQ((*Recipe::CopyBlockPlane(Rows(w), kernels::BlockFormat::kQ4_0,
                                     kernels::BlockPlane::kNumbers))
                ->digest()
                .ToHex(),
            "d698e1a290347193dd58c2e33dca8025");
}

TEST(Recipe, WhatDoesNotFitIsRefusedAndNamesTheTypes) {
  const RecipePtr w = Matrix();
  const RecipePtr f = *Recipe::Convert(w, ElementType::kF32);
  const std::vector<absl::StatusOr<RecipePtr>> refused = {
      Recipe::Constant(Fake(1, 100), 53, Type(ElementType::kBF16, {6, 4}), "BF16[6,4]"),
      Recipe::Constant(Fake(1, 100), UINT64_MAX, Type(ElementType::kBF16, {6, 4}), "BF16[6,4]"),
      Recipe::Constant(nullptr, 0, Type(ElementType::kBF16, {6, 4}), "BF16[6,4]"),
      Recipe::Concat({w, f}, 0),
      Recipe::Concat({w, *Recipe::Permute(w, {1, 0})}, 0),
      Recipe::Concat({w, *Recipe::Reshape(w, {24})}, 0),
      Recipe::Concat({w, w}, 2),
      Recipe::Concat({w, w}, -1),
      Recipe::Slice(w, {0, 0}, {7, 4}),
      Recipe::Slice(w, {1, 0}, {6, 4}),
      Recipe::Slice(w, {-1, 0}, {1, 1}),
      Recipe::Slice(w, {0, 0}, {-1, 1}),
      Recipe::Slice(w, {0}, {1}),
      Recipe::Slice(w, {INT64_MAX, 0}, {1, 1}),
      Recipe::Reshape(w, {5, 5}),
      Recipe::Reshape(w, {-6, -4}),
      Recipe::Reshape(w, {1, 1, 1, 1, 1, 1, 1, 6, 4}),
      Recipe::Permute(w, {0}),
      Recipe::Permute(w, {0, 0}),
      Recipe::Permute(w, {1, 2}),
      Recipe::Permute(w, {-1, 0}),
      Recipe::Convert(w, ElementType::kNF4),
  };
  for (const absl::StatusOr<RecipePtr>& result : refused) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(result.status().message()).find("BF16[6,4]"), std::string::npos)
        << result.status();
  }
  EXPECT_FALSE(Recipe::Concat({}, 0).ok());
  EXPECT_FALSE(Recipe::Concat({w, nullptr}, 0).ok());
  EXPECT_FALSE(Recipe::Permute(nullptr, {}).ok());
}

TEST(Recipe, DepthIsBounded) {
  RecipePtr recipe = Matrix();
  absl::StatusOr<RecipePtr> next = recipe;
  while (next.ok()) {
    recipe = *next;
    next = Recipe::Convert(recipe, recipe->depth() % 2 == 0 ? ElementType::kF32 : ElementType::kF16);
  }
  EXPECT_EQ(next.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(recipe->depth(), Recipe::kMaxDepth);
}

// Each step doubles the work for an element: without a bound, 2^256 fit in the depth.
TEST(Recipe, WorkForOneElementIsBounded) {
  RecipePtr recipe = Matrix();
  absl::StatusOr<RecipePtr> next = recipe;
  int steps = 0;
  for (; next.ok(); ++steps) {
    recipe = *next;
    next = Recipe::Unpack(recipe, recipe, nullptr, ElementType::kBF16);
  }
  EXPECT_EQ(next.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(steps, 11);
}

TEST(Recipe, OnlyFilesMeanTheSameBytesInAnotherProcess) {
  const auto buffer = Source::FromBuffer(std::vector<std::byte>(48), "b");
  const RecipePtr b = *Recipe::Constant(buffer, 0, Type(ElementType::kBF16, {6, 4}), "b");
  EXPECT_FALSE(b->Persistent());
  EXPECT_FALSE((*Recipe::Concat({Matrix(), b}, 0))->Persistent());
}

}  // namespace
}  // namespace npubank

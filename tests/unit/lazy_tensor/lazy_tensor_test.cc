#include "npubank/lazy_tensor/lazy_tensor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/weights/random_recipe.h"
#include "npubank/tests/support/weights/reference_evaluate.h"

namespace npubank {
namespace {

using Bytes = std::vector<std::byte>;

TensorType Type(ElementType element, const std::vector<int64_t>& dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

LazyTensor Stored(size_t bytes = 48) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i);
  return *LazyTensor::Constant(Source::FromBuffer(std::move(data), "weights"), 0,
                               Type(ElementType::kU8, {static_cast<int64_t>(bytes) / 4, 4}), "w");
}

TEST(LazyTensor, DetachingLetsGoOfTheSourceAndKeepsTheIdentity) {
  LazyTensor weight = *Stored().Permute({1, 0});
  const Digest digest = weight.digest();
  EXPECT_EQ(LiveSourceBytes(), 48u);
  weight.Detach();
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  EXPECT_TRUE(weight.detached());
  EXPECT_EQ(weight.digest(), digest);
  EXPECT_EQ(weight.uid(), Uid::Of(digest));
  EXPECT_EQ(weight.type(), Type(ElementType::kU8, {4, 12}));
  weight.Detach();  // again: nothing happens
}

TEST(LazyTensor, CopiesShareOneStateSoDetachingOneDetachesAll) {
  const LazyTensor kept_by_a_submodel = Stored();
  LazyTensor copy = kept_by_a_submodel;
  copy.Detach();
  EXPECT_TRUE(kept_by_a_submodel.detached());
  EXPECT_EQ(LiveSourceBytes(), 0u);
}

TEST(LazyTensor, ATensorThatWasMovedFromIsAsOneThatIsDetached) {
  LazyTensor moved = Stored();
  const LazyTensor weight = std::move(moved);
  EXPECT_FALSE(weight.detached());
  EXPECT_TRUE(moved.detached());
  EXPECT_EQ(moved.recipe(), nullptr);
  EXPECT_EQ(moved.Permute({1, 0}).status().code(), absl::StatusCode::kFailedPrecondition);
  Bytes out(48);
  EXPECT_EQ(moved.EvaluateInto(absl::MakeSpan(out)).code(), absl::StatusCode::kFailedPrecondition);
  moved.Detach();
  moved = weight;
  EXPECT_EQ(moved.digest(), weight.digest());
}

TEST(LazyTensor, DetachingATensorDoesNotDisturbAnotherOnTheSameSubRecipe) {
  LazyTensor stored = Stored();
  LazyTensor transposed = *stored.Permute({1, 0});
  LazyTensor half = *stored.Convert(ElementType::kF16);
  stored.Detach();
  transposed.Detach();
  Bytes out(96);
  EXPECT_EQ(half.EvaluateInto(absl::MakeSpan(out)), absl::OkStatus());
  EXPECT_EQ(LiveSourceBytes(), 48u);
  half.Detach();
  EXPECT_EQ(LiveSourceBytes(), 0u);
}

TEST(LazyTensor, EveryOperationOnADetachedTensorSaysThatItIsDetached) {
  LazyTensor gone = Stored();
  gone.Detach();
  Bytes out(48);
  const LazyTensor other = Stored();
  const std::vector<LazyTensor> both = {other, gone};
  for (const absl::Status& status :
       {gone.Slice({0, 0}, {1, 1}).status(), gone.Reshape({48}).status(),
        gone.Permute({1, 0}).status(), gone.Convert(ElementType::kF16).status(),
        LazyTensor::Concat(both, 0).status(), gone.EvaluateInto(absl::MakeSpan(out))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(status.message()).find(gone.uid().ToHex()), std::string::npos) << status;
  }
}

TEST(LazyTensor, OperationsComposeAsRecipesDo) {
  const LazyTensor stored = Stored();
  const LazyTensor chain = *(*(*stored.Slice({1, 0}, {4, 4})).Reshape({2, 8})).Permute({1, 0});
  const LazyTensor both = *LazyTensor::Concat({chain, chain}, 1);
  EXPECT_EQ(both.type(), Type(ElementType::kU8, {8, 4}));
  Bytes out(32);
  EXPECT_EQ(both.EvaluateInto(absl::MakeSpan(out)), absl::OkStatus());
  EXPECT_EQ(out, testing::ReferenceEvaluate(*both.recipe()));
}

TEST(LazyTensor, AThreadThatEvaluatesKeepsItsRecipeWhileOthersDetach) {
  for (int round = 0; round < 30; ++round) {
    LazyTensor stored = Stored(1 << 16);
    LazyTensor transposed = *stored.Permute({1, 0});
    const Bytes expected = testing::ReferenceEvaluate(*transposed.recipe());
    std::atomic<bool> started{false};
    std::thread evaluating([&] {
      const RecipePtr held = transposed.recipe();
      started = true;
      if (held == nullptr) return;
      Bytes out(expected.size());
      EXPECT_EQ(Evaluate(*held, absl::MakeSpan(out), {}), absl::OkStatus());
      EXPECT_EQ(out, expected);
    });
    while (!started) std::this_thread::yield();
    stored.Detach();
    transposed.Detach();
    evaluating.join();
    ASSERT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }
}

// Random chains on one shared sub-recipe: all but one are detached while the last is evaluated.
TEST(LazyTensor, DetachingSharersDuringAnEvaluationNeverDisturbsIt) {
  const uint64_t first = PrintedSeed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(Repetitions(400)); ++seed) {
    SCOPED_TRACE("NPUBANK_SEED=" + std::to_string(seed));
    {
      testing::RandomRecipes random(seed);
      std::vector<LazyTensor> sharers;
      const RecipePtr base = random.Make(2);
      for (int i = 0; i < 4; ++i) sharers.emplace_back(random.Extend(base, 3));
      const LazyTensor kept(random.Extend(base, 4));
      const Bytes expected = testing::ReferenceEvaluate(*kept.recipe());
      std::thread detaching([&] {
        for (LazyTensor& sharer : sharers) sharer.Detach();
      });
      Bytes out(expected.size());
      EXPECT_EQ(kept.EvaluateInto(absl::MakeSpan(out)), absl::OkStatus());
      detaching.join();
      EXPECT_TRUE(testing::SameElements(kept.type(), out, expected));
    }
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }
}

}  // namespace
}  // namespace npubank

// Whatever order submodels come, run and go in: one copy on the device, no source kept, nothing
// left.
#include <utility>

#include "npubank/bank/books/audit.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/leak/leak_test.h"
#include "npubank/tests/support/weights/scripted_source.h"

namespace npubank {
namespace {

class SubmodelsLeakTest : public LeakTest {};

TEST_P(SubmodelsLeakTest, PrefillThenKvcache) {
  const TestSubmodel prefill = Load("prefill");
  const TestSubmodel kvcache = Load("kvcache");
  Run(prefill);
  Run(kvcache);
  ExpectOneCopyAndNoSource();
}

TEST_P(SubmodelsLeakTest, KvcacheThenPrefill) {
  const TestSubmodel kvcache = Load("kvcache");
  Run(kvcache);
  const TestSubmodel prefill = Load("prefill");
  Run(prefill);
  ExpectOneCopyAndNoSource();
}

TEST_P(SubmodelsLeakTest, InterleavedRegistration) {
  TestSubmodel prefill = Open("prefill");
  TestSubmodel kvcache = Open("kvcache");
  for (size_t i = 0; i < weights_.size(); ++i) {
    Register(i % 2 == 0 ? prefill : kvcache, i);
    Register(i % 2 == 0 ? kvcache : prefill, i);
  }
  ASSERT_TRUE(Evaluate(kvcache).ok());
  ASSERT_TRUE(Evaluate(prefill).ok());
  Run(prefill);
  Run(kvcache);
  ExpectOneCopyAndNoSource();
}

TEST_P(SubmodelsLeakTest, TheSecondSubmodelArrivesAfterTheFirstWasEvaluated) {
  const TestSubmodel prefill = Load("prefill");
  Run(prefill);
  TestSubmodel kvcache = Open("kvcache");
  EXPECT_GT(LiveSourceBytes(), 0u) << "its recipes hold the checkpoint";
  RegisterAll(kvcache);
  for (const LazyTensor& tensor : kvcache.tensors) EXPECT_TRUE(tensor.detached());
  EXPECT_EQ(LiveSourceBytes(), 0u) << "all hits, all detached, nothing evaluated yet";
  ASSERT_TRUE(Evaluate(kvcache).ok());
  Run(kvcache);
  ExpectOneCopyAndNoSource();
}

TEST_P(SubmodelsLeakTest, AThirdSubmodel) {
  const TestSubmodel prefill = Load("prefill");
  const TestSubmodel kvcache = Load("kvcache");
  const TestSubmodel draft = Load("draft");
  Run(draft);
  Run(prefill);
  Run(kvcache);
  ExpectOneCopyAndNoSource();
}

TEST_P(SubmodelsLeakTest, OneIsDroppedWhileTheOtherRuns) {
  TestSubmodel prefill = Load("prefill");
  TestSubmodel kvcache = Load("kvcache");
  const Lease running = bank_->Get(kvcache.uids[0]).value();
  prefill = TestSubmodel();
  ExpectOneCopyAndNoSource();
  Run(kvcache);
  kvcache = TestSubmodel();
  EXPECT_EQ(device_.count().allocations, 1u) << "only what still runs is kept";
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
}

TEST_P(SubmodelsLeakTest, AnEvaluationThatFailsHalfwayIsRetried) {
  constexpr int64_t kElements = 16;
  constexpr int kTensors = 4;
  const auto source = ScriptedSource::Make("weights", CountingFloats(kElements * kTensors));
  TestSubmodel prefill;
  prefill.owner = bank_->AddOwner("prefill");
  prefill.tensors = VectorsOver(source, kElements);
  TestSubmodel kvcache;
  kvcache.owner = bank_->AddOwner("kvcache");
  kvcache.tensors = VectorsOver(source, kElements);
  RegisterAll(prefill);
  RegisterAll(kvcache);

  source->FailRead(3);
  EXPECT_TRUE(absl::IsDataLoss(Evaluate(prefill)));
  EXPECT_EQ(device_.count().allocations, 2u) << "what failed holds nothing";
  EXPECT_EQ(LiveSourceBytes(), 2 * kElements * sizeof(float)) << "what is not there yet is kept";
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();

  ASSERT_TRUE(Evaluate(kvcache).ok());
  ASSERT_TRUE(Evaluate(prefill).ok());
  EXPECT_EQ(bank_->Totals().evaluations, static_cast<uint64_t>(kTensors));
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  for (int i = 0; i < kTensors; ++i) {
    std::vector<std::byte> bytes(kElements * sizeof(float));
    ASSERT_TRUE(bank_->Read(kvcache.uids[i], 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, CountingFloats(kElements, 1 + i * kElements));
  }
}

TEST_P(SubmodelsLeakTest, AFailedLoadThatIsGivenUpLeavesNothing) {
  const auto source = ScriptedSource::Make("weights", CountingFloats(64));
  TestSubmodel prefill;
  prefill.owner = bank_->AddOwner("prefill");
  prefill.tensors = VectorsOver(source, 16);
  RegisterAll(prefill);
  source->FailRead(2, /*forever=*/true);
  EXPECT_FALSE(Evaluate(prefill).ok());
  prefill = TestSubmodel();
  ExpectNothingOnTheDevice();
}

TEST_P(SubmodelsLeakTest, WhatSharesASubRecipeIsNotDisturbed) {
  TestSubmodel first = Open("first halves");
  TestSubmodel second = Open("second halves");
  // Tensors 2n and 2n+1 stand on one stored constant; each submodel takes one of the two.
  std::vector<size_t> taken_by_second;
  for (size_t i = 0; i < weights_.size(); i += 2) {
    Register(first, i);
    Register(second, i + 1);
    taken_by_second.push_back(i + 1);
  }
  ASSERT_TRUE(Evaluate(first).ok());
  first = TestSubmodel();
  EXPECT_GT(LiveSourceBytes(), 0u) << "the second still needs the same constants";
  ASSERT_TRUE(Evaluate(second).ok());
  for (size_t i = 0; i < taken_by_second.size(); ++i) {
    std::vector<std::byte> bytes(TestWeights::kColumns * sizeof(float));
    ASSERT_TRUE(bank_->Read(second.uids[i], 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, weights_.Expected(taken_by_second[i]));
  }
  second.tensors.clear();  // those it did not register
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST_P(SubmodelsLeakTest, ASubmodelThatIsNeverEvaluatedLeavesNothing) {
  TestSubmodel prefill = Open("prefill");
  RegisterAll(prefill);
  prefill = TestSubmodel();
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

INSTANTIATE_TEST_SUITE_P(On, SubmodelsLeakTest, ::testing::ValuesIn(DevicesUnderTest()),
                         DeviceName);

}  // namespace
}  // namespace npubank

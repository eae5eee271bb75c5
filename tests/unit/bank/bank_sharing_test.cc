// Tensors of equal bytes share an allocation, and come and go with it.
#include <gtest/gtest.h>

#include "npubank/tests/unit/bank/bank_life_fixture.h"

namespace npubank {
namespace {

class BankSharingTest : public BankLifeTest {};

TEST_F(BankSharingTest, TheSameCheckpointInTwoFoldersIsOnTheDeviceOnce) {
  Make({});
  const TestWeights original(3), copy(3);
  const Model first = Load("original", original);
  const Model second = Load("copy", copy);
  EXPECT_EQ(bank_->Totals().unique_tensors, 12u) << "the files differ, so the uids do";
  EXPECT_EQ(Live(), 6 * kPage);
  EXPECT_EQ(bank_->Totals().device_bytes, 6 * kPage);
  EXPECT_EQ(bank_->Totals().content_bytes_saved, 6 * kPage);
  ExpectContents(second, copy);
}

TEST_F(BankSharingTest, TwoModelsThatDifferInOneLayerCostThatLayer) {
  Make({});
  const TestWeights base(4), tuned(4, 100);
  const Model first = Load("base", base);
  Model second = Load("tuned", tuned);
  EXPECT_EQ(Live(), (8 + 2) * kPage);
  ExpectContents(first, base);
  ExpectContents(second, tuned);
  second = Model();
  EXPECT_EQ(Live(), 8 * kPage);
  ExpectContents(first, base);
}

TEST_F(BankSharingTest, EqualHashesOfDifferentBytesAreNotShared) {
  Make({.content_hash_hook = [](const Digest&) { return Digest{1, 2}; }});
  const TestWeights a(3), b(3, 100);
  const Model first = Load("a", a);
  const Model second = Load("b", b);
  ExpectContents(first, a);
  ExpectContents(second, b);
  EXPECT_EQ(Live(), (6 + 2) * kPage) << "and what is equal still is";
}

TEST_F(BankSharingTest, WhatCannotBeReadBackIsNotSharedAndNoError) {
  Make({}, {.host_writable = false, .staging_bytes = 256});
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead, .nth = 1, .forever = true});
  const TestWeights original(1), copy(1);
  const Model first = Load("original", original);
  const Model second = Load("copy", copy);
  EXPECT_EQ(Live(), 4 * kPage);
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead});
  ExpectContents(second, copy);
}

TEST_F(BankSharingTest, SharedContentsLeaveTheDeviceTogether) {
  Make({.budget_bytes = 3 * kPage});
  const TestWeights original(1), copy(1), other(1, 100);
  const Model first = Load("original", original);
  const Model second = Load("copy", copy);
  EXPECT_EQ(Live(), 2 * kPage);
  const Model third = Load("other", other);
  EXPECT_EQ(bank_->Totals().evictions, 2u) << "one allocation, two tensors";
  EXPECT_LE(Live(), 3 * kPage);
  ExpectContents(first, original);
  ExpectContents(second, copy);
  ExpectContents(third, other);
  EXPECT_LE(memory_->Usage().peak_bytes, 3 * kPage);
}

TEST_F(BankSharingTest, WhatASleeperSharesByContentStaysForThoseWhoAreAwake) {
  Make({});
  const TestWeights original(1), copy(1);
  const Model first = Load("original", original);
  const Model second = Load("copy", copy);
  const SleepReport none = bank_->Sleep(first.owner).value();
  EXPECT_EQ(none.bytes_of_others_awake, 2 * kPage);
  EXPECT_EQ(none.bytes_given_back, 0u);
  EXPECT_EQ(bank_->Totals().evictions, 0u) << "it would give nothing back";
  const SleepReport all = bank_->Sleep(second.owner).value();
  EXPECT_EQ(all.bytes_given_back, 2 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->EvaluateAndAllocate({&first.owner, &second.owner}).ok());
  EXPECT_EQ(Live(), 2 * kPage);
  EXPECT_EQ(bank_->Sleep({&first.owner, &second.owner})->bytes_given_back, 2 * kPage)
      << "shared bytes count once";
}

TEST_F(BankSharingTest, EqualContentsShareAHostCopyToo) {
  Make({});
  const TestWeights original(1), copy(1);
  const Model first = Load("original", original, /*can_return=*/false);
  const Model second = Load("copy", copy, /*can_return=*/false);
  EXPECT_EQ(bank_->Sleep(first.owner)->bytes_of_others_awake, 2 * kPage);
  EXPECT_EQ(bank_->Sleep(second.owner, {.keep_host_copy = true})->bytes_given_back, 2 * kPage);
  ExpectContents(first, original);
  ExpectContents(second, copy);
}

}  // namespace
}  // namespace npubank

// Owners that sleep and wake: what leaves, what stays, and what a failure leaves as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "npubank/tests/support/hooked_memory.h"
#include "npubank/tests/unit/bank/bank_life_fixture.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

class BankSleepTest : public BankLifeTest {};

TEST_F(BankSleepTest, SleepGivesTheBytesBackAndWakeBringsThemBack) {
  Make({});
  const TestWeights weights(3);
  const Model model = Load("prefill", weights);
  const absl::StatusOr<SleepReport> report = bank_->Sleep(model.owner);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->bytes_given_back, 6 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  EXPECT_EQ(Live(), 6 * kPage);
  ExpectContents(model, weights);
}

TEST_F(BankSleepTest, WhatASleeperSharesStaysForThoseWhoAreAwake) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights);
  const Model kvcache = Load("kvcache", weights);
  EXPECT_EQ(bank_->Sleep(prefill.owner)->bytes_of_others_awake, 4 * kPage);
  EXPECT_EQ(Live(), 4 * kPage);
  EXPECT_EQ(bank_->Sleep(kvcache.owner)->bytes_given_back, 4 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(kvcache.owner).ok());
  ExpectContents(prefill, weights);
}

TEST_F(BankSleepTest, OwnersThatSleepTogetherGiveWhatTheyShareBackAtOnce) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights);
  const Model kvcache = Load("kvcache", weights);
  const SleepReport report = bank_->Sleep({&prefill.owner, &kvcache.owner}).value();
  EXPECT_EQ(report.bytes_given_back, 4 * kPage);
  EXPECT_EQ(report.bytes_of_others_awake, 0u);
  EXPECT_EQ(Live(), 0u);
  uint64_t total = 0;
  LoadOptions options;
  options.progress = [&](const LoadProgress& progress) { total = progress.bytes_total; };
  ASSERT_TRUE(bank_->EvaluateAndAllocate({&prefill.owner, &kvcache.owner}, options).ok());
  EXPECT_EQ(total, weights.Bytes()) << "each tensor counts once";
  ExpectContents(kvcache, weights);
}

TEST_F(BankSleepTest, WhenOneOfThemWasReleasedNoneSleeps) {
  Make({});
  const TestWeights weights(1);
  Model prefill = Load("prefill", weights);
  Model kvcache = Load("kvcache", weights);
  kvcache.owner.Release();
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Sleep({&prefill.owner, &kvcache.owner}).status()));
  EXPECT_EQ(Live(), 2 * kPage);
}

TEST_F(BankSleepTest, WhenAHostCopyCannotBeMadeNothingSleepsAndNoCopyIsKept) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead, .nth = 3});
  const absl::Status status = bank_->Sleep(model.owner, {.keep_host_copy = true}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("keeping a copy of tensor 'prefill.2'"));
  EXPECT_EQ(Live(), 4 * kPage);
  EXPECT_EQ(bank_->Sleep(model.owner)->bytes_without_way_back, 4 * kPage) << "a copy was kept";
}

TEST_F(BankSleepTest, ALeaseKeepsItsBytesThroughASleep) {
  Make({});
  const TestWeights weights(1);
  const Model model = Load("prefill", weights);
  const Lease lease = bank_->Get(model.uids[0]).value();
  const SleepReport report = bank_->Sleep(model.owner).value();
  EXPECT_EQ(report.bytes_leased, kPage);
  EXPECT_EQ(report.bytes_given_back, kPage);
  EXPECT_EQ(HostBytesAt(lease.address(), lease.type().bytes()), weights.Expected(0));
}

TEST_F(BankSleepTest, WithoutAWayBackNothingSleepsUnlessAHostCopyIsKept) {
  Make({});
  const TestWeights weights(1);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  EXPECT_EQ(bank_->Sleep(model.owner)->bytes_without_way_back, 2 * kPage);
  EXPECT_EQ(Live(), 2 * kPage);
  EXPECT_EQ(bank_->Sleep(model.owner, {.keep_host_copy = true})->bytes_given_back, 2 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
  ExpectContents(model, weights);
}

TEST_F(BankSleepTest, ASourceThatChangedMeanwhileIsAnErrorAndNotOtherWeights) {
  Make({});
  TestWeights weights(1);
  const Model model = Load("prefill", weights);
  ASSERT_TRUE(bank_->Sleep(model.owner).ok());
  weights.Rewrite();
  const absl::Status status = bank_->EvaluateAndAllocate(model.owner);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'prefill.0'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("load the model again"));
  EXPECT_EQ(Live(), 0u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST_F(BankSleepTest, AfterAWakeThatFailsTheOwnerSleepsAsBeforeAndCanBeWokenAgain) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights);
  ASSERT_TRUE(bank_->Sleep(model.owner).ok());
  memory_->InjectFault({.call = HostMemory::Fault::Call::kWrite, .nth = 2});
  EXPECT_FALSE(bank_->EvaluateAndAllocate(model.owner).ok());
  EXPECT_EQ(Live(), 0u) << "what had come back is gone again";
  ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
  ExpectContents(model, weights);
}

TEST_F(BankSleepTest, AfterAWakeThatFailsTheHostCopiesAreStillThere) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  ASSERT_TRUE(bank_->Sleep(model.owner, {.keep_host_copy = true}).ok());
  for (const uint64_t nth : {2, 3, 4}) {
    memory_->InjectFault({.call = HostMemory::Fault::Call::kAllocate, .nth = nth});
    EXPECT_TRUE(absl::IsResourceExhausted(bank_->EvaluateAndAllocate(model.owner)));
    EXPECT_EQ(Live(), 0u) << "what had come back is gone again";
  }
  ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
  ExpectContents(model, weights);
  EXPECT_EQ(bank_->Sleep(model.owner)->bytes_without_way_back, 4 * kPage)
      << "once all is there, the copies are gone";
}

TEST_F(BankSleepTest, AWakeThatFailsDoesNotDependOnTheCheckpointWhenThereAreHostCopies) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights);
  ASSERT_TRUE(bank_->Sleep(model.owner, {.keep_host_copy = true}).ok());
  ASSERT_TRUE(std::filesystem::remove(weights.path()));
  memory_->InjectFault({.call = HostMemory::Fault::Call::kAllocate, .nth = 3});
  EXPECT_FALSE(bank_->EvaluateAndAllocate(model.owner).ok());
  EXPECT_EQ(Live(), 0u);
  const absl::Status status = bank_->EvaluateAndAllocate(model.owner);
  ASSERT_TRUE(status.ok()) << status;
  ExpectContents(model, weights);
}

// A Wake inside another's progress stands for one on another thread that ends at that moment.
TEST_F(BankSleepTest, AWakeThatFailsDoesNotUndoAnotherThatSucceeded) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights);
  const Model kvcache = Load("kvcache", weights);
  ASSERT_TRUE(bank_->Sleep({&prefill.owner, &kvcache.owner}).ok());
  bool stop = false;
  LoadOptions options;
  options.cancelled = [&] { return stop; };
  options.progress = [&](const LoadProgress&) {
    EXPECT_TRUE(bank_->EvaluateAndAllocate(prefill.owner).ok());
    stop = true;
  };
  EXPECT_TRUE(absl::IsCancelled(bank_->EvaluateAndAllocate(prefill.owner, options)));
  EXPECT_EQ(Live(), 4 * kPage);
  EXPECT_EQ(bank_->Sleep(kvcache.owner)->bytes_of_others_awake, 4 * kPage) << "prefill is awake";
}

TEST_F(BankSleepTest, WhenAllWakesOfAnOwnerFailItSleepsAsBefore) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  ASSERT_TRUE(bank_->Sleep(model.owner, {.keep_host_copy = true}).ok());
  bool stop = false;
  LoadOptions options;
  options.cancelled = [&] { return stop; };
  options.progress = [&](const LoadProgress&) {
    memory_->InjectFault({.call = HostMemory::Fault::Call::kAllocate, .nth = 2});
    EXPECT_FALSE(bank_->EvaluateAndAllocate(model.owner).ok());
    stop = true;
  };
  EXPECT_TRUE(absl::IsCancelled(bank_->EvaluateAndAllocate(model.owner, options)));
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
  ExpectContents(model, weights);
}

TEST_F(BankSleepTest, AnOwnerReleasedDuringAWakeDoesNotKeepTheOthersHalfAwake) {
  Make({});
  const TestWeights a(2), b(2, 100);
  const Model first = Load("first", a);
  Model second = Load("second", b);
  ASSERT_TRUE(bank_->Sleep({&first.owner, &second.owner}).ok());
  LoadOptions options;
  options.progress = [&](const LoadProgress&) { second.owner.Release(); };
  EXPECT_TRUE(
      absl::IsCancelled(bank_->EvaluateAndAllocate({&first.owner, &second.owner}, options)));
  EXPECT_EQ(Live(), 0u) << "the one that is left sleeps again";
  ASSERT_TRUE(bank_->EvaluateAndAllocate(first.owner).ok());
  ExpectContents(first, a);
}

TEST_F(BankSleepTest, HostCopiesThatAreNotTheOnlyWayBackCanBeDropped) {
  Make({});
  const TestWeights a(2), b(2, 100);
  const Model returns = Load("returns", a);
  const Model stays = Load("stays", b, /*can_return=*/false);
  ASSERT_TRUE(bank_->Sleep({&returns.owner, &stays.owner}, {.keep_host_copy = true}).ok());
  // The first layer is equal in both, and has one copy; the second copy of it is the only way back.
  EXPECT_EQ(bank_->DropHostCopies({&returns.owner, &stays.owner}).value(), a.Bytes());
  EXPECT_EQ(bank_->DropHostCopies({&returns.owner, &stays.owner}).value(), 0u);
  ASSERT_TRUE(bank_->EvaluateAndAllocate({&returns.owner, &stays.owner}).ok());
  ExpectContents(returns, a);
  ExpectContents(stays, b);
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->DropHostCopies({nullptr}).status()));
}

// Seen: awake again it was device memory, and under the budget of its load it never woke.
TEST_F(BankSleepTest, WhatWasImportedIsImportedAgainAfterASleepWithHostCopies) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {.budget_bytes = kPage, .share_content = false});
  const TestWeights weights(3);
  const Owner owner = bank->AddOwner("model", {.index = weights.Index()});
  for (const char* name : {"layer0", "layer1", "layer2"}) {
    const LazyTensor stored = LazyTensor::Stored(*weights.Index(), name).value();
    ASSERT_TRUE(bank->Register(owner, stored, name).ok());
  }
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  const uint64_t imported = memory->Usage().imported_bytes;
  ASSERT_GT(imported, 0u);
  ASSERT_TRUE(bank->Sleep(owner, {.keep_host_copy = true}).ok());
  EXPECT_EQ(memory->Usage().imported_bytes, 0u);
  const absl::Status status = bank->EvaluateAndAllocate(owner);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(memory->Usage().imported_bytes, imported);
  EXPECT_EQ(bank->Totals().device_bytes, 0u);
}

TEST_F(BankSleepTest, OnlyWhatLeavesIsCopied) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights, /*can_return=*/false);
  const Model kvcache = Load("kvcache", weights, /*can_return=*/false);
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead, .nth = 1, .forever = true});
  const auto shared = bank_->Sleep(prefill.owner, {.keep_host_copy = true});
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(shared->bytes_of_others_awake, 4 * kPage);
  std::vector<Lease> leases;
  for (const Uid uid : kvcache.uids) leases.push_back(bank_->Get(uid).value());
  const auto leased = bank_->Sleep(kvcache.owner, {.keep_host_copy = true});
  ASSERT_TRUE(leased.ok()) << leased.status();
  EXPECT_EQ(leased->bytes_leased, 4 * kPage);
}

}  // namespace
}  // namespace npubank

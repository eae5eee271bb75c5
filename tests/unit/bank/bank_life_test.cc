// Tensors that leave the device and come back: budget, eviction, sleep and wake, equal contents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bank/bank.h"
#include "bank/host_memory.h"
#include "lazy_tensor/retention.h"
#include "lazy_tensor/status_macros.h"
#include "tests/support/hooked_memory.h"
#include "tests/support/scripted_source.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_weights.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPage = 4096;  // each tensor here takes one

struct Model {
  Owner owner;
  std::vector<Uid> uids;
};

class BankLifeTest : public ::testing::Test {
 protected:
  void Make(BankOptions options, HostMemory::Options memory = {}) {
    memory_ = std::make_shared<HostMemory>(memory);
    bank_ = Bank::Create(memory_, std::move(options));
  }

  void TearDown() override {
    if (bank_ == nullptr) return;
    EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
    bank_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }

  Model Register(const std::string& name, const TestWeights& weights, bool can_return = true) {
    Model model;
    model.owner =
        bank_->AddOwner(name, {.resolver = can_return ? weights.Resolver() : RecipeResolver()});
    const std::vector<LazyTensor> tensors = weights.Submodel();
    for (size_t i = 0; i < tensors.size(); ++i) {
      model.uids.push_back(
          bank_->Register(model.owner, tensors[i], absl::StrCat(name, ".", i)).value().uid);
    }
    return model;
  }

  Model Load(const std::string& name, const TestWeights& weights, bool can_return = true) {
    Model model = Register(name, weights, can_return);
    const absl::Status status = bank_->EvaluateAndAllocate(model.owner);
    EXPECT_TRUE(status.ok()) << status;
    return model;
  }

  void ExpectContents(const Model& model, const TestWeights& weights) {
    for (size_t i = 0; i < model.uids.size(); ++i) {
      std::vector<std::byte> bytes(weights.Expected(i).size());
      const absl::Status status = bank_->Read(model.uids[i], 0, absl::MakeSpan(bytes));
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(bytes, weights.Expected(i)) << i;
    }
  }

  uint64_t Live() const { return memory_->Usage().live_bytes; }

  std::shared_ptr<HostMemory> memory_;
  std::shared_ptr<Bank> bank_;
};

TEST_F(BankLifeTest, OverBudgetTheModelUsedLongestAgoLeaves) {
  Make({.budget_bytes = 4 * kPage, .share_content = false});
  const TestWeights a(1), b(1, 100), c(1, 200);
  const Model first = Load("first", a);
  const Model second = Load("second", b);
  ExpectContents(first, a);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(first.owner).ok());  // the first is now the younger
  const Model third = Load("third", c);
  EXPECT_EQ(bank_->Totals().evictions, 2u);
  EXPECT_EQ(bank_->Snapshot().tensors[0].state, "resident");
  EXPECT_EQ(bank_->Snapshot().tensors[2].state, "evicted");
  EXPECT_LE(Live(), 4 * kPage);
  EXPECT_LE(memory_->Usage().peak_bytes, 4 * kPage) << "room is made before it is used";
  ExpectContents(second, b);
  ExpectContents(first, a);
  ExpectContents(third, c);
  EXPECT_LE(memory_->Usage().peak_bytes, 4 * kPage);
  EXPECT_EQ(LiveSourceBytes(), 0u) << "what came back holds no source either";
}

TEST_F(BankLifeTest, ALeaseIsNeverEvicted) {
  Make({.budget_bytes = 2 * kPage, .share_content = false});
  const TestWeights a(1), b(1, 100);
  const Model first = Load("first", a);
  const Lease pinned = bank_->Get(first.uids[0]).value();
  const Model second = Register("second", b);
  const absl::Status status = bank_->EvaluateAndAllocate(second.owner);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'second.1'")) << "the first of it had room";
  EXPECT_THAT(std::string(status.message()), HasSubstr("'first.0' 4096 bytes (leased)"));
  EXPECT_EQ(HostBytesAt(pinned.address(), pinned.type().bytes()), a.Expected(0));
}

TEST_F(BankLifeTest, WhatCannotComeBackIsNeverEvicted) {
  Make({.budget_bytes = 2 * kPage, .share_content = false});
  const TestWeights a(1), b(1, 100);
  const Model first = Load("first", a, /*can_return=*/false);
  const Model second = Register("second", b);
  const absl::Status status = bank_->EvaluateAndAllocate(second.owner);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be brought back"));
  EXPECT_EQ(bank_->Totals().evictions, 0u) << "everything is as before";
  ExpectContents(first, a);
  EXPECT_EQ(bank_->Totals().budget_used, 2 * kPage);
}

TEST_F(BankLifeTest, AModelLargerThanTheBudgetIsRefusedAndDoesNotEvictItself) {
  Make({.budget_bytes = 3 * kPage, .share_content = false});
  const TestWeights a(2);
  const Model model = Register("large", a);
  EXPECT_TRUE(absl::IsResourceExhausted(bank_->EvaluateAndAllocate(model.owner)));
  EXPECT_EQ(bank_->Totals().evictions, 0u);
}

TEST_F(BankLifeTest, WhenTheDriverIsOutOfMemoryTheBankEvictsAndRetriesOnce) {
  Make({.share_content = false}, {.capacity = 2 * kPage});
  const TestWeights a(1), b(1, 100);
  const Model first = Load("first", a);
  const Model second = Load("second", b);
  EXPECT_EQ(bank_->Totals().evictions, 2u);
  ExpectContents(second, b);
  ExpectContents(first, a);
}

TEST_F(BankLifeTest, SleepGivesTheBytesBackAndWakeBringsThemBack) {
  Make({});
  const TestWeights weights(3);
  const Model model = Load("prefill", weights);
  const absl::StatusOr<SleepReport> report = bank_->Sleep(model.owner);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->bytes_given_back, 6 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->Wake(model.owner).ok());
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  EXPECT_EQ(Live(), 6 * kPage);
  ExpectContents(model, weights);
}

TEST_F(BankLifeTest, WhatASleeperSharesStaysForThoseWhoAreAwake) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights);
  const Model kvcache = Load("kvcache", weights);
  EXPECT_EQ(bank_->Sleep(prefill.owner)->bytes_of_others_awake, 4 * kPage);
  EXPECT_EQ(Live(), 4 * kPage);
  EXPECT_EQ(bank_->Sleep(kvcache.owner)->bytes_given_back, 4 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->Wake(kvcache.owner).ok());
  ExpectContents(prefill, weights);
}

TEST_F(BankLifeTest, OwnersThatSleepTogetherGiveWhatTheyShareBackAtOnce) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights);
  const Model kvcache = Load("kvcache", weights);
  const SleepReport report = bank_->Sleep({&prefill.owner, &kvcache.owner}).value();
  EXPECT_EQ(report.bytes_given_back, 4 * kPage);
  EXPECT_EQ(report.bytes_of_others_awake, 0u);
  EXPECT_EQ(Live(), 0u);
  uint64_t total = 0;
  EvaluateAllOptions options;
  options.progress = [&](const LoadProgress& progress) { total = progress.bytes_total; };
  ASSERT_TRUE(bank_->Wake({&prefill.owner, &kvcache.owner}, options).ok());
  EXPECT_EQ(total, weights.Bytes()) << "each tensor counts once";
  ExpectContents(kvcache, weights);
}

TEST_F(BankLifeTest, WhenOneOfThemWasReleasedNoneSleeps) {
  Make({});
  const TestWeights weights(1);
  Model prefill = Load("prefill", weights);
  Model kvcache = Load("kvcache", weights);
  kvcache.owner.Release();
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Sleep({&prefill.owner, &kvcache.owner}).status()));
  EXPECT_EQ(Live(), 2 * kPage);
}

TEST_F(BankLifeTest, WhenAHostCopyCannotBeMadeNothingSleepsAndNoCopyIsKept) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead, .nth = 3});
  const absl::Status status = bank_->Sleep(model.owner, {.keep_host_copy = true}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("keeping a copy of tensor 'prefill.2'"));
  EXPECT_EQ(Live(), 4 * kPage);
  EXPECT_EQ(bank_->Sleep(model.owner)->bytes_without_way_back, 4 * kPage) << "a copy was kept";
}

TEST_F(BankLifeTest, RoomForOthersIsMadeByWhatIsIdleAndOnlyWhenThatIsEnough) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights);
  EXPECT_FALSE(bank_->Evict(5 * kPage));
  EXPECT_EQ(Live(), 4 * kPage) << "nothing leaves in vain";
  EXPECT_TRUE(bank_->Evict(3 * kPage));
  EXPECT_EQ(Live(), kPage);
  ExpectContents(model, weights);
}

TEST_F(BankLifeTest, ALeaseKeepsItsBytesThroughASleep) {
  Make({});
  const TestWeights weights(1);
  const Model model = Load("prefill", weights);
  const Lease lease = bank_->Get(model.uids[0]).value();
  const SleepReport report = bank_->Sleep(model.owner).value();
  EXPECT_EQ(report.bytes_leased, kPage);
  EXPECT_EQ(report.bytes_given_back, kPage);
  EXPECT_EQ(HostBytesAt(lease.address(), lease.type().bytes()), weights.Expected(0));
}

TEST_F(BankLifeTest, WithoutAWayBackNothingSleepsUnlessAHostCopyIsKept) {
  Make({});
  const TestWeights weights(1);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  EXPECT_EQ(bank_->Sleep(model.owner)->bytes_without_way_back, 2 * kPage);
  EXPECT_EQ(Live(), 2 * kPage);
  EXPECT_EQ(bank_->Sleep(model.owner, {.keep_host_copy = true})->bytes_given_back, 2 * kPage);
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->Wake(model.owner).ok());
  ExpectContents(model, weights);
}

TEST_F(BankLifeTest, ASourceThatChangedMeanwhileIsAnErrorAndNotOtherWeights) {
  Make({});
  TestWeights weights(1);
  const Model model = Load("prefill", weights);
  ASSERT_TRUE(bank_->Sleep(model.owner).ok());
  weights.Rewrite();
  const absl::Status status = bank_->Wake(model.owner);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'prefill.0'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("load the model again"));
  EXPECT_EQ(Live(), 0u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST_F(BankLifeTest, AfterAWakeThatFailsTheOwnerSleepsAsBeforeAndCanBeWokenAgain) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights);
  ASSERT_TRUE(bank_->Sleep(model.owner).ok());
  memory_->InjectFault({.call = HostMemory::Fault::Call::kWrite, .nth = 2});
  EXPECT_FALSE(bank_->Wake(model.owner).ok());
  EXPECT_EQ(Live(), 0u) << "what had come back is gone again";
  ASSERT_TRUE(bank_->Wake(model.owner).ok());
  ExpectContents(model, weights);
}

TEST_F(BankLifeTest, AfterAWakeThatFailsTheHostCopiesAreStillThere) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  ASSERT_TRUE(bank_->Sleep(model.owner, {.keep_host_copy = true}).ok());
  for (const uint64_t nth : {2, 3, 4}) {
    memory_->InjectFault({.call = HostMemory::Fault::Call::kAllocate, .nth = nth});
    EXPECT_TRUE(absl::IsResourceExhausted(bank_->Wake(model.owner)));
    EXPECT_EQ(Live(), 0u) << "what had come back is gone again";
  }
  ASSERT_TRUE(bank_->Wake(model.owner).ok());
  ExpectContents(model, weights);
  EXPECT_EQ(bank_->Sleep(model.owner)->bytes_without_way_back, 4 * kPage)
      << "once all is there, the copies are gone";
}

TEST_F(BankLifeTest, AWakeThatFailsDoesNotDependOnTheCheckpointWhenThereAreHostCopies) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights);
  ASSERT_TRUE(bank_->Sleep(model.owner, {.keep_host_copy = true}).ok());
  ASSERT_TRUE(std::filesystem::remove(weights.path()));
  memory_->InjectFault({.call = HostMemory::Fault::Call::kAllocate, .nth = 3});
  EXPECT_FALSE(bank_->Wake(model.owner).ok());
  EXPECT_EQ(Live(), 0u);
  const absl::Status status = bank_->Wake(model.owner);
  ASSERT_TRUE(status.ok()) << status;
  ExpectContents(model, weights);
}

// A Wake inside another's progress stands for one on another thread that ends at that moment.
TEST_F(BankLifeTest, AWakeThatFailsDoesNotUndoAnotherThatSucceeded) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights);
  const Model kvcache = Load("kvcache", weights);
  ASSERT_TRUE(bank_->Sleep({&prefill.owner, &kvcache.owner}).ok());
  bool stop = false;
  EvaluateAllOptions options;
  options.cancelled = [&] { return stop; };
  options.progress = [&](const LoadProgress&) {
    EXPECT_TRUE(bank_->Wake(prefill.owner).ok());
    stop = true;
  };
  EXPECT_TRUE(absl::IsCancelled(bank_->Wake(prefill.owner, options)));
  EXPECT_EQ(Live(), 4 * kPage);
  EXPECT_EQ(bank_->Sleep(kvcache.owner)->bytes_of_others_awake, 4 * kPage) << "prefill is awake";
}

TEST_F(BankLifeTest, WhenAllWakesOfAnOwnerFailItSleepsAsBefore) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights, /*can_return=*/false);
  ASSERT_TRUE(bank_->Sleep(model.owner, {.keep_host_copy = true}).ok());
  bool stop = false;
  EvaluateAllOptions options;
  options.cancelled = [&] { return stop; };
  options.progress = [&](const LoadProgress&) {
    memory_->InjectFault({.call = HostMemory::Fault::Call::kAllocate, .nth = 2});
    EXPECT_FALSE(bank_->Wake(model.owner).ok());
    stop = true;
  };
  EXPECT_TRUE(absl::IsCancelled(bank_->Wake(model.owner, options)));
  EXPECT_EQ(Live(), 0u);
  ASSERT_TRUE(bank_->Wake(model.owner).ok());
  ExpectContents(model, weights);
}

TEST_F(BankLifeTest, AnOwnerReleasedDuringAWakeDoesNotKeepTheOthersHalfAwake) {
  Make({});
  const TestWeights a(2), b(2, 100);
  const Model first = Load("first", a);
  Model second = Load("second", b);
  ASSERT_TRUE(bank_->Sleep({&first.owner, &second.owner}).ok());
  EvaluateAllOptions options;
  options.progress = [&](const LoadProgress&) { second.owner.Release(); };
  EXPECT_TRUE(absl::IsCancelled(bank_->Wake({&first.owner, &second.owner}, options)));
  EXPECT_EQ(Live(), 0u) << "the one that is left sleeps again";
  ASSERT_TRUE(bank_->Wake(first.owner).ok());
  ExpectContents(first, a);
}

TEST_F(BankLifeTest, OnlyWhatLeavesIsCopied) {
  Make({});
  const TestWeights weights(2);
  const Model prefill = Load("prefill", weights, /*can_return=*/false);
  const Model kvcache = Load("kvcache", weights, /*can_return=*/false);
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead, .nth = 1, .for_ever = true});
  const auto shared = bank_->Sleep(prefill.owner, {.keep_host_copy = true});
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(shared->bytes_of_others_awake, 4 * kPage);
  std::vector<Lease> leases;
  for (const Uid uid : kvcache.uids) leases.push_back(bank_->Get(uid).value());
  const auto leased = bank_->Sleep(kvcache.owner, {.keep_host_copy = true});
  ASSERT_TRUE(leased.ok()) << leased.status();
  EXPECT_EQ(leased->bytes_leased, 4 * kPage);
}

TEST_F(BankLifeTest, UnownedTensorsAreFoundAgainUntilTheirRoomIsNeeded) {
  Make({.budget_bytes = 4 * kPage, .keep_unowned = true, .share_content = false});
  const TestWeights a(1), b(1, 100), c(1, 200);
  Load("first", a);  // and dropped at once
  EXPECT_EQ(Live(), 2 * kPage);
  {
    const Model again = Register("again", a);
    EXPECT_EQ(bank_->Totals().hits, 2u);
    ExpectContents(again, a);
    EXPECT_EQ(bank_->Totals().evaluations, 2u);
  }
  const Model second = Load("second", b);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(second.owner).ok());
  const Model third = Load("third", c);
  EXPECT_EQ(bank_->Totals().unique_tensors, 4u)
      << "the unowned left, although not the oldest owner";
  ExpectContents(second, b);
  EXPECT_EQ(bank_->Totals().evaluations, 6u) << "the second never left";
}

TEST_F(BankLifeTest, TrimDropsWhatNobodyOwns) {
  Make({.keep_unowned = true});
  const TestWeights a(1), b(1, 100);
  Load("first", a);
  const Model second = Load("second", b);
  EXPECT_EQ(bank_->Trim(), 2 * kPage);
  ExpectContents(second, b);
}

TEST_F(BankLifeTest, TrimCountsEqualContentsThatLeaveTogether) {
  Make({.keep_unowned = true});
  const TestWeights original(1), copy(1);
  {
    const Model first = Load("original", original);
    Load("copy", copy);
    EXPECT_EQ(bank_->Trim(), 0u) << "the original has the same bytes, and an owner";
    Load("copy", copy);
  }
  EXPECT_EQ(bank_->Trim(), 2 * kPage);
  EXPECT_EQ(Live(), 0u);
}

TEST_F(BankLifeTest, AskedForNoRoomNothingLeaves) {
  Make({});
  const TestWeights weights(2);
  const Model model = Load("prefill", weights);
  EXPECT_TRUE(bank_->Evict(0));
  EXPECT_EQ(bank_->Totals().evictions, 0u);
}

// What brings a tensor back.

TEST_F(BankLifeTest, ALaterRegistrationBringsBackWhatItsFirstOwnerNeverFetched) {
  Make({});
  const TestWeights weights(1);
  Model first = Load("first", weights);
  ASSERT_TRUE(bank_->Sleep(first.owner).ok());
  const Model second = Register("second", weights, /*can_return=*/false);
  EXPECT_EQ(bank_->Totals().hits, 2u);
  EXPECT_EQ(bank_->Snapshot().tensors[0].why_held,
            "evicted, and to come back from what was registered since");
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
  first = Model();
  const absl::Status status = bank_->EvaluateAndAllocate(second.owner);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  ExpectContents(second, weights);
}

TEST_F(BankLifeTest, ALaterRegistrationDoesNotDependOnTheFoldersFormerName) {
  Make({});
  const TestWeights weights(1);
  const Model first = Load("first", weights);
  ASSERT_TRUE(bank_->Sleep(first.owner).ok());
  const std::vector<LazyTensor> opened = weights.Submodel();  // as under the folder's new name
  ASSERT_TRUE(std::filesystem::remove(weights.path()));
  EXPECT_TRUE(absl::IsNotFound(bank_->Wake(first.owner)));
  const Owner second = bank_->AddOwner("second");
  for (const LazyTensor& tensor : opened) {
    ASSERT_TRUE(bank_->Register(second, tensor, "w").value().hit);
    EXPECT_TRUE(tensor.detached());
  }
  const absl::Status status = bank_->EvaluateAndAllocate(second);
  ASSERT_TRUE(status.ok()) << status;
  ExpectContents(first, weights);
}

TEST_F(BankLifeTest, WhatALaterRegistrationLeftIsDroppedWithItsOwner) {
  Make({});
  const TestWeights weights(1);
  const Model first = Load("first", weights);
  ASSERT_TRUE(bank_->Sleep(first.owner).ok());
  {
    const Model second = Register("second", weights);
    EXPECT_GT(LiveSourceBytes(), 0u);
  }
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  ASSERT_TRUE(bank_->Wake(first.owner).ok());
  ExpectContents(first, weights);
}

TEST_F(BankLifeTest, ABufferThatNobodyFindsAgainStaysOnTheDevice) {
  Make({});
  const TestWeights weights(1);
  const Model model = Load("prefill", weights);
  Uid uid;
  {
    const auto buffer = Source::FromBuffer(CountingFloats(100), "table");
    uid = bank_->Register(model.owner, VectorsOver(buffer, 100)[0], "table").value().uid;
    ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
  }
  const SleepReport report = bank_->Sleep(model.owner).value();
  EXPECT_EQ(report.bytes_without_way_back, kPage);
  EXPECT_EQ(report.bytes_given_back, 2 * kPage);
  std::vector<std::byte> bytes(400);
  ASSERT_TRUE(bank_->Read(uid, 0, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, CountingFloats(100));
}

TEST_F(BankLifeTest, ABufferThatTheOwnerStillHasComesBackFromIt) {
  Make({});
  const auto buffer = Source::FromBuffer(CountingFloats(100), "table");
  const Owner owner = bank_->AddOwner(
      "prefill", {.resolver = [buffer](absl::string_view) -> absl::StatusOr<RecipePtr> {
        return VectorsOver(buffer, 100)[0].recipe();
      }});
  const Uid uid = bank_->Register(owner, VectorsOver(buffer, 100)[0], "table").value().uid;
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank_->Sleep(owner)->bytes_given_back, kPage);
  std::vector<std::byte> bytes(400);
  ASSERT_TRUE(bank_->Read(uid, 0, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, CountingFloats(100));
}

TEST_F(BankLifeTest, ASourceWhoseTensorsHaveOtherTypesNowIsDataLoss) {
  Make({});
  const TestWeights weights(1);
  bool changed = false;
  const Owner owner = bank_->AddOwner(
      "prefill", {.resolver = [&](absl::string_view name) -> absl::StatusOr<RecipePtr> {
        NPUBANK_ASSIGN_OR_RETURN(RecipePtr stored, weights.Resolver()(name));
        if (!changed) return stored;
        return Recipe::Slice(stored, {0, 0}, {1, TestWeights::kColumns});
      }});
  ASSERT_TRUE(bank_->Register(owner, weights.Submodel()[0], "wq").ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  ASSERT_TRUE(bank_->Sleep(owner).ok());
  changed = true;
  const absl::Status status = bank_->Wake(owner);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'wq'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("load the model again"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer0")) << "and says which part";
}

// More than any host has, to be copied from a device that holds it without memory.
TEST_F(BankLifeTest, AHostThatIsTooSmallForACopyIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the program when an allocation fails";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers end the program when an allocation fails";
#endif
#endif
  class Endless final : public Source {
   public:
    Endless() : Source("endless", Digest{7, 7}, uint64_t{1} << 60) {}
    bool persistent() const override { return true; }
    absl::Status Read(uint64_t, absl::Span<std::byte>) const override {
      return absl::UnavailableError("never read here");
    }
    absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override {
      return absl::FailedPreconditionError("not mapped");
    }
    void Release(uint64_t, uint64_t) const override {}
  };
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {});
  const Owner owner = bank->AddOwner("prefill");
  const TensorType type =
      TensorType::Create(ElementType::kF32, Shape::Create({int64_t{1} << 50}).value()).value();
  const LazyTensor huge =
      LazyTensor::Constant(std::make_shared<Endless>(), 0, type, "huge").value();
  ASSERT_TRUE(bank->Register(owner, huge, "huge").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  const absl::Status status = bank->Sleep(owner, {.keep_host_copy = true}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'huge'"));
}

// Files that are the device's memory as they are.

TEST_F(BankLifeTest, WhatIsImportedTakesNothingOfTheBudget) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {.budget_bytes = kPage});
  const TemporaryFolder folder;
  std::vector<Owner> owners;
  for (const char* name : {"first", "second"}) {
    const auto file = Source::OpenFile(folder.Write(name, std::string(4 * kPage, 'w'))).value();
    owners.push_back(bank->AddOwner(name));
    for (const LazyTensor& tensor : VectorsOver(file, kPage / 2)) {
      ASSERT_TRUE(bank->Register(owners.back(), tensor, name).ok());
    }
    const absl::Status status = bank->EvaluateAndAllocate(owners.back());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(bank->Totals().budget_used, 0u);
    EXPECT_EQ(bank->Totals().device_bytes, 0u);
  }
  const TestWeights written(1);
  owners.push_back(bank->AddOwner("written"));
  ASSERT_TRUE(bank->Register(owners.back(), written.Submodel()[0], "written").ok());
  const absl::Status status = bank->EvaluateAndAllocate(owners.back());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(bank->Totals().budget_used, kPage);
  EXPECT_EQ(bank->Totals().device_bytes, kPage);
}

TEST_F(BankLifeTest, WhatIsImportedIsNotEvictedForOthersRoom) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {.budget_bytes = kPage, .share_content = false});
  const TestWeights weights(1);
  const Owner owner = bank->AddOwner("model", {.resolver = weights.Resolver()});
  const LazyTensor imported(weights.Resolver()("layer0").value());
  ASSERT_TRUE(bank->Register(owner, imported, "imported").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  for (const LazyTensor& tensor : weights.Submodel()) {
    const Uid uid = bank->Register(owner, tensor, "written").value().uid;
    ASSERT_TRUE(bank->Get(uid).ok());
  }
  EXPECT_EQ(bank->Totals().evictions, 1u) << "the first of the two that are written";
  EXPECT_EQ(bank->Snapshot().tensors[0].state, "resident");
}

// Equal contents.

TEST_F(BankLifeTest, TheSameCheckpointInTwoFoldersIsOnTheDeviceOnce) {
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

TEST_F(BankLifeTest, TwoModelsThatDifferInOneLayerCostThatLayer) {
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

TEST_F(BankLifeTest, EqualHashesOfDifferentBytesAreNotShared) {
  Make({.content_hash_hook = [](const Digest&) { return Digest{1, 2}; }});
  const TestWeights a(3), b(3, 100);
  const Model first = Load("a", a);
  const Model second = Load("b", b);
  ExpectContents(first, a);
  ExpectContents(second, b);
  EXPECT_EQ(Live(), (6 + 2) * kPage) << "and what is equal still is";
}

TEST_F(BankLifeTest, WhatCannotBeReadBackIsNotSharedAndNoError) {
  Make({}, {.host_writable = false, .staging_bytes = 256});
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead, .nth = 1, .for_ever = true});
  const TestWeights original(1), copy(1);
  const Model first = Load("original", original);
  const Model second = Load("copy", copy);
  EXPECT_EQ(Live(), 4 * kPage);
  memory_->InjectFault({.call = HostMemory::Fault::Call::kRead});
  ExpectContents(second, copy);
}

TEST_F(BankLifeTest, SharedContentsLeaveTheDeviceTogether) {
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

TEST_F(BankLifeTest, WhatASleeperSharesByContentStaysForThoseWhoAreAwake) {
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
  ASSERT_TRUE(bank_->Wake({&first.owner, &second.owner}).ok());
  EXPECT_EQ(Live(), 2 * kPage);
  EXPECT_EQ(bank_->Sleep({&first.owner, &second.owner})->bytes_given_back, 2 * kPage)
      << "shared bytes count once";
}

TEST_F(BankLifeTest, EqualContentsShareAHostCopyToo) {
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

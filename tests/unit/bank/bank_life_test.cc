// Tensors that leave the device for others and come back: budget, eviction, ways back, imports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/tests/support/hooked_memory.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/unit/bank/bank_life_fixture.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

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

TEST_F(BankLifeTest, ALargerBudgetLetsInWhatWasRefused) {
  Make({.budget_bytes = 2 * kPage, .share_content = false});
  const TestWeights weights(2);
  const Model model = Register("large", weights);
  EXPECT_TRUE(absl::IsResourceExhausted(bank_->EvaluateAndAllocate(model.owner)));
  ASSERT_TRUE(bank_->SetBudget(4 * kPage).ok());
  EXPECT_EQ(bank_->Totals().budget, 4 * kPage);
  ASSERT_TRUE(bank_->EvaluateAndAllocate(model.owner).ok());
}

TEST_F(BankLifeTest, ASmallerBudgetSendsAwayWhatIsIdleOrChangesNothing) {
  Make({.budget_bytes = 4 * kPage, .share_content = false});
  const TestWeights a(1), b(1, 100);
  const Model first = Load("first", a);
  const Model second = Load("second", b);
  const Lease pinned = bank_->Get(second.uids[1]).value();
  ASSERT_TRUE(bank_->SetBudget(2 * kPage).ok());
  EXPECT_EQ(Live(), 2 * kPage);
  const absl::Status status = bank_->SetBudget(0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'second.1' 4096 bytes (leased)"));
  EXPECT_EQ(bank_->Totals().budget, 2 * kPage);
  EXPECT_EQ(Live(), 2 * kPage) << "nothing left in vain";
  ExpectContents(first, a);
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
  EXPECT_TRUE(absl::IsNotFound(bank_->EvaluateAndAllocate(first.owner)));
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
  ASSERT_TRUE(bank_->EvaluateAndAllocate(first.owner).ok());
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
  const LazyTensor table = VectorsOver(buffer, 100)[0];
  auto index = std::make_shared<SourceIndex>("table");
  ASSERT_TRUE(index->AddFile(SourceOpener::Held(buffer)).ok());
  ASSERT_TRUE(index->Add({"stored0", table.type(), 0, 0}).ok());
  const Owner owner = bank_->AddOwner("prefill", {.index = index});
  const Uid uid = bank_->Register(owner, table, "table").value().uid;
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank_->Sleep(owner)->bytes_given_back, kPage);
  std::vector<std::byte> bytes(400);
  ASSERT_TRUE(bank_->Read(uid, 0, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, CountingFloats(100));
}

// Opens a file once; whatever is to happen meanwhile happens in every later opening, which fails.
class OpensOnce final : public SourceOpener {
 public:
  OpensOnce(std::string path, std::function<void()> meanwhile)
      : path_(std::move(path)), meanwhile_(std::move(meanwhile)) {}
  absl::StatusOr<std::shared_ptr<Source>> Open() override {
    if (!std::exchange(opened_, true)) return Source::OpenFile(path_);
    meanwhile_();
    return absl::NotFoundError("gone");
  }

 private:
  const std::string path_;
  const std::function<void()> meanwhile_;
  bool opened_ = false;
};

// One owner's way back is being tried, and fails; another, who has no index, registers the same tensor
// in the middle of it. The tensor is a hit, and what was brought with it is the only way left.
TEST_F(BankLifeTest, AHitDuringAFailingLoadOfAnotherOwnerKeepsTheRecipeItCameWith) {
  Make({});
  const TestWeights weights(1);
  const LazyTensor table = LazyTensor::Stored(*weights.Index(), "layer0").value();
  Owner without = bank_->AddOwner("without a way back");
  auto index = std::make_shared<SourceIndex>("fails");
  const auto meanwhile = [&] {
    const auto registered =
        bank_->Register(without, *LazyTensor::Stored(*weights.Index(), "layer0"), "w");
    ASSERT_TRUE(registered.ok()) << registered.status();
    EXPECT_TRUE(registered->hit);
  };
  const uint32_t file =
      index->AddFile(std::make_unique<OpensOnce>(weights.path(), meanwhile)).value();
  ASSERT_TRUE(index->Add({"layer0", table.type(), file, 0}).ok());
  Owner with = bank_->AddOwner("with a way back", {.index = index});
  ASSERT_TRUE(bank_->Register(with, table, "w").ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(with).ok());
  ASSERT_GT(bank_->Sleep(with)->bytes_given_back, 0u);
  EXPECT_FALSE(bank_->EvaluateAndAllocate(with).ok()) << "its file is gone";
  with.Release();
  const auto leases = bank_->Load(without);
  ASSERT_TRUE(leases.ok()) << leases.status();
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST_F(BankLifeTest, AnOwnerThatGoesWhileItsReadFailsLeavesNothing) {
  Make({});
  const auto source = ScriptedSource::Make("weights", CountingFloats(8));
  Owner owner = bank_->AddOwner("goes");
  ASSERT_TRUE(bank_->Register(owner, VectorsOver(source, 8)[0], "w").ok());
  source->on_read = [&] { owner.Release(); };
  source->FailRead(1);
  EXPECT_FALSE(bank_->EvaluateAndAllocate(owner).ok());
  EXPECT_THAT(bank_->Snapshot().tensors, ::testing::IsEmpty());
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

// Any of its owners may be the last that is left.
TEST_F(BankLifeTest, WhatOneOfItsOwnersCannotBringBackStaysForThatOwner) {
  Make({});
  const TestWeights weights(1);
  Model with = Load("with a way back", weights);
  const Model without = Load("without", weights, /*can_return=*/false);
  ASSERT_EQ(with.uids, without.uids);
  const SleepReport slept = bank_->Sleep({&with.owner, &without.owner}).value();
  EXPECT_EQ(slept.bytes_given_back, 0u);
  EXPECT_EQ(slept.bytes_without_way_back, 2 * kPage);
  with.owner.Release();
  ExpectContents(without, weights);
}

TEST_F(BankLifeTest, ASourceThatIsAnotherNowIsDataLoss) {
  Make({});
  TestWeights weights(1);
  const Owner owner = bank_->AddOwner("prefill", {.index = weights.Index()});
  ASSERT_TRUE(bank_->Register(owner, weights.Submodel()[0], "wq").ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  ASSERT_TRUE(bank_->Sleep(owner).ok());
  weights.Rewrite();
  const absl::Status status = bank_->EvaluateAndAllocate(owner);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'wq'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("load the model again"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(weights.path())) << "and says which file";
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

TEST_F(BankLifeTest, ALoadPlansItsImportsOnceBeforeTheFirst) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {});
  const TemporaryFolder folder;
  const auto file = Source::OpenFile(folder.Write("w", std::string(4 * kPage, 'w'))).value();
  const Owner owner = bank->AddOwner("model");
  for (const LazyTensor& tensor : VectorsOver(file, kPage / 2)) {
    ASSERT_TRUE(bank->Register(owner, tensor, "w").ok());
  }
  const TestWeights written(1);
  ASSERT_TRUE(bank->Register(owner, written.Submodel()[0], "written").ok());
  LoadOptions options;
  options.progress = [&](const LoadProgress&) { EXPECT_EQ(memory->planned_imports.size(), 1u); };
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner, options).ok());
  ASSERT_EQ(memory->planned_imports.size(), 1u);
  const std::vector<ImportRange>& ranges = memory->planned_imports.front();
  ASSERT_EQ(ranges.size(), 2u);
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].source, file->identity());
    EXPECT_EQ(ranges[i].offset, i * 2 * kPage);
    EXPECT_EQ(ranges[i].bytes, 2 * kPage);
  }
}

TEST_F(BankLifeTest, WhatIsImportedIsNotEvictedForOthersRoom) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {.budget_bytes = kPage, .share_content = false});
  const TestWeights weights(1);
  const Owner owner = bank->AddOwner("model", {.index = weights.Index()});
  const LazyTensor imported = LazyTensor::Stored(*weights.Index(), "layer0").value();
  ASSERT_TRUE(bank->Register(owner, imported, "imported").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  for (const LazyTensor& tensor : weights.Submodel()) {
    const Uid uid = bank->Register(owner, tensor, "written").value().uid;
    ASSERT_TRUE(bank->Get(uid).ok());
  }
  EXPECT_EQ(bank->Totals().evictions, 1u) << "the first of the two that are written";
  EXPECT_EQ(bank->Snapshot().tensors[0].state, "resident");
}

}  // namespace
}  // namespace npubank

#include "npubank/bank/bank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kElements = 8;  // of each tensor over a scripted source

class BankTest : public ::testing::Test {
 protected:
  void TearDown() override {
    bank_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }

  std::vector<Uid> RegisterAll(const Owner& owner, const std::vector<LazyTensor>& tensors) {
    std::vector<Uid> uids;
    for (size_t i = 0; i < tensors.size(); ++i) {
      uids.push_back(bank_->Register(owner, tensors[i], TestWeights::Name(i)).value().uid);
    }
    return uids;
  }

  std::vector<std::byte> Contents(Uid uid) {
    const Lease lease = bank_->Get(uid).value();
    return HostBytesAt(lease.address(), lease.type().bytes());
  }

  std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>();
  std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {});
};

TEST_F(BankTest, WhatIsOnTheDeviceIsWhatTheRecipesSay) {
  const TestWeights weights(3);
  const Owner owner = bank_->AddOwner("prefill");
  const std::vector<Uid> uids = RegisterAll(owner, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  for (size_t i = 0; i < uids.size(); ++i) EXPECT_EQ(Contents(uids[i]), weights.Expected(i)) << i;
}

TEST_F(BankTest, TheSameHoldsWhereTheHostCannotWriteTheDevice) {
  memory_ = std::make_shared<HostMemory>(
      HostMemory::Options{.host_writable = false, .staging_bytes = 64});
  bank_ = Bank::Create(memory_, {.workers = std::make_shared<ThreadWorkers>(2)});
  const TestWeights weights(3);
  const Owner owner = bank_->AddOwner("prefill");
  const std::vector<Uid> uids = RegisterAll(owner, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  for (size_t i = 0; i < uids.size(); ++i) EXPECT_EQ(Contents(uids[i]), weights.Expected(i)) << i;
}

// Invariant 1.
TEST_F(BankTest, DetachHappensOnPublishAndOnAHitAndNowhereElse) {
  const TestWeights weights(1);
  std::vector<LazyTensor> first = weights.Submodel();
  std::vector<LazyTensor> second = weights.Submodel();
  const Owner prefill = bank_->AddOwner("prefill");
  const Owner kvcache = bank_->AddOwner("kvcache");

  EXPECT_FALSE(bank_->Register(prefill, first[0], "a").value().hit);
  EXPECT_FALSE(first[0].detached()) << "a miss keeps the recipe";
  EXPECT_TRUE(bank_->Register(kvcache, second[0], "a").value().hit);
  EXPECT_TRUE(second[0].detached()) << "a hit detaches at once";
  EXPECT_FALSE(first[0].detached()) << "a hit leaves the bank's own recipe";

  ASSERT_TRUE(bank_->EvaluateAndAllocate(kvcache).ok());
  EXPECT_TRUE(first[0].detached()) << "published: the submodel's copy is detached with the bank's";
  EXPECT_FALSE(first[1].detached()) << "another tensor is left alone";
  first.clear();
  second.clear();
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

// Invariant 2.
TEST_F(BankTest, DetachLeavesTensorsThatShareASubRecipeAlone) {
  const TestWeights weights(1);
  const std::vector<LazyTensor> tensors = weights.Submodel();  // both stand on one constant
  const Owner owner = bank_->AddOwner("prefill");
  ASSERT_TRUE(bank_->Register(owner, tensors[0], "turned").ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  ASSERT_TRUE(tensors[0].detached());
  std::vector<std::byte> bytes(tensors[1].type().bytes());
  ASSERT_TRUE(tensors[1].EvaluateInto(absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, weights.Expected(1));
}

TEST_F(BankTest, AHandleThatIsRegisteredTwiceKeepsItsRecipeInTheBank) {
  const TestWeights weights(1);
  const std::vector<LazyTensor> tensors = weights.Submodel();
  const Owner prefill = bank_->AddOwner("prefill");
  const Owner kvcache = bank_->AddOwner("kvcache");
  const Uid uid = bank_->Register(prefill, tensors[0], "a").value().uid;
  EXPECT_TRUE(bank_->Register(kvcache, tensors[0], "a").value().hit);
  EXPECT_TRUE(tensors[0].detached());
  EXPECT_EQ(Contents(uid), weights.Expected(0));
}

// Invariant 6.
TEST_F(BankTest, DeviceBytesAreTheSumOfTheResidentTensors) {
  const TestWeights weights(4);
  const Owner prefill = bank_->AddOwner("prefill");
  const Owner kvcache = bank_->AddOwner("kvcache");
  RegisterAll(prefill, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(prefill).ok());
  RegisterAll(kvcache, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(kvcache).ok());

  const BankTotals totals = bank_->Totals();
  EXPECT_EQ(totals.unique_tensors, weights.size());
  EXPECT_EQ(totals.unique_bytes, weights.Bytes());
  EXPECT_EQ(totals.resident_bytes, weights.Bytes());
  EXPECT_EQ(totals.shared_bytes_saved, weights.Bytes());
  EXPECT_EQ(totals.device_bytes, weights.size() * 4096);
  EXPECT_EQ(totals.device_bytes, memory_->Usage().live_bytes);
  EXPECT_EQ(totals.registrations, 2 * weights.size());
  EXPECT_EQ(totals.hits, weights.size());
  EXPECT_EQ(totals.evaluations, weights.size());
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
}

TEST_F(BankTest, TheSubmodelThatComesSecondFindsEverythingThere) {
  const TestWeights weights(2);
  const Owner prefill = bank_->AddOwner("prefill");
  RegisterAll(prefill, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(prefill).ok());
  const uint64_t peak = memory_->Usage().peak_bytes;

  const Owner kvcache = bank_->AddOwner("kvcache");
  const std::vector<LazyTensor> tensors = weights.Submodel();
  RegisterAll(kvcache, tensors);
  for (const LazyTensor& tensor : tensors) EXPECT_TRUE(tensor.detached());
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  ASSERT_TRUE(bank_->EvaluateAndAllocate(kvcache).ok());
  EXPECT_EQ(memory_->Usage().peak_bytes, peak);
}

TEST_F(BankTest, AnOwnerThatRegistersATensorTwiceOwnsItOnce) {
  const TestWeights weights(1);
  Owner owner = bank_->AddOwner("tied embeddings");
  ASSERT_FALSE(bank_->Register(owner, weights.Submodel()[0], "embedding").value().hit);
  ASSERT_TRUE(bank_->Register(owner, weights.Submodel()[0], "head").value().hit);
  EXPECT_EQ(bank_->Totals().shared_bytes_saved, 0u);
  owner.Release();
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

TEST_F(BankTest, GetEvaluatesWhatIsNotThereAndOnlyThat) {
  const TestWeights weights(2);
  const Owner owner = bank_->AddOwner("prefill");
  const std::vector<Uid> uids = RegisterAll(owner, weights.Submodel());
  EXPECT_EQ(Contents(uids[2]), weights.Expected(2));
  EXPECT_EQ(bank_->Totals().evaluations, 1u);
}

TEST_F(BankTest, ALeaseOutlivesItsOwnerAndTheBankHandle) {
  const TestWeights weights(1);
  Owner owner = bank_->AddOwner("prefill");
  const std::vector<Uid> uids = RegisterAll(owner, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  Lease lease = bank_->Get(uids[0]).value();
  const Lease copy = lease;
  owner.Release();
  bank_.reset();
  lease = Lease();
  EXPECT_EQ(memory_->Usage().live_allocations, 1u) << "only what is leased is left";
  EXPECT_EQ(HostBytesAt(copy.address(), copy.type().bytes()), weights.Expected(0));
}

TEST_F(BankTest, WhatNobodyOwnsOrLeasesGoesBackToTheDevice) {
  const TestWeights weights(2);
  Owner prefill = bank_->AddOwner("prefill");
  Owner kvcache = bank_->AddOwner("kvcache");
  const std::vector<Uid> uids = RegisterAll(prefill, weights.Submodel());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(prefill).ok());
  ASSERT_TRUE(bank_->Register(kvcache, weights.Submodel()[0], "shared").ok());
  prefill.Release();
  EXPECT_EQ(memory_->Usage().live_allocations, 1u);
  EXPECT_TRUE(absl::IsNotFound(bank_->Get(uids[1]).status()));
  kvcache = Owner();
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

TEST_F(BankTest, ATensorCanBeRegisteredAgainAfterItWasForgotten) {
  const TestWeights weights(1);
  for (int round = 0; round < 3; ++round) {
    const Owner owner = bank_->AddOwner("prefill");
    EXPECT_FALSE(bank_->Register(owner, weights.Submodel()[0], "a").value().hit);
    ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  }
  EXPECT_EQ(bank_->Totals().evaluations, 3u);
}

TEST_F(BankTest, ADetachedTensorIsAHitWhenKnownAndAnErrorOtherwise) {
  const TestWeights weights(1);
  LazyTensor tensor = weights.Submodel()[0];
  tensor.Detach();
  const Owner owner = bank_->AddOwner("prefill");
  const absl::Status refused = bank_->Register(owner, tensor, "late").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'late'"));
  ASSERT_TRUE(bank_->Register(owner, weights.Submodel()[0], "a").ok());
  EXPECT_TRUE(bank_->Register(owner, tensor, "late").value().hit);
  LazyTensor moved = weights.Submodel()[0];
  const LazyTensor taken = std::move(moved);
  EXPECT_TRUE(absl::IsFailedPrecondition(bank_->Load("again", moved).status()));
}

TEST_F(BankTest, OwnersOfAnotherBankOrOfNothingAreRefused) {
  const TestWeights weights(1);
  const auto other = Bank::Create(memory_, {});
  const Owner stranger = other->AddOwner("stranger");
  EXPECT_TRUE(
      absl::IsInvalidArgument(bank_->Register(stranger, weights.Submodel()[0], "a").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->EvaluateAndAllocate(stranger)));
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->EvaluateAndAllocate(Owner())));
  Owner released = bank_->AddOwner("released");
  released.Release();
  EXPECT_TRUE(
      absl::IsInvalidArgument(bank_->Register(released, weights.Submodel()[0], "a").status()));
}

TEST_F(BankTest, ANullOwnerIsRefused) {
  const Owner owner = bank_->AddOwner("prefill");
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Load({&owner, nullptr}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->EvaluateAndAllocate({nullptr})));
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Sleep({nullptr}).status()));
}

TEST_F(BankTest, WithoutADeviceMemoryEveryLoadIsRefusedAndNothingElse) {
  const auto bank = Bank::Create(nullptr, {});
  const TestWeights weights(1);
  const Owner owner = bank->AddOwner("prefill");
  ASSERT_TRUE(bank->Register(owner, weights.Submodel()[0], "a").ok());
  const absl::Status status = bank->EvaluateAndAllocate(owner);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("without a device memory"));
  EXPECT_EQ(bank->Snapshot().tensors.size(), 1u);
  EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
}

TEST_F(BankTest, ATensorOfNoBytesIsResidentWithoutMemory) {
  const auto source = ScriptedSource::Make("empty", CountingFloats(4));
  const TensorType type =
      TensorType::Create(ElementType::kF32, Shape::Create({0, 4}).value()).value();
  const Owner owner = bank_->AddOwner("odd");
  const Uid uid =
      bank_->Register(owner, LazyTensor::Constant(source, 0, type, "none").value(), "none")
          .value()
          .uid;
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank_->Get(uid).value().address(), nullptr);
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
}

TEST_F(BankTest, EvaluationFollowsTheOrderOfRegistration) {
  const auto source = ScriptedSource::Make("ordered", CountingFloats(4 * kElements));
  const std::vector<LazyTensor> tensors = VectorsOver(source, kElements);
  const Owner owner = bank_->AddOwner("prefill");
  for (int i : {2, 0, 3, 1}) {
    ASSERT_TRUE(bank_->Register(owner, tensors[i], absl::StrCat("t", i)).ok());
  }
  std::vector<std::string> order;
  std::vector<uint64_t> done;
  LoadOptions options;
  options.progress = [&](const LoadProgress& progress) {
    order.emplace_back(progress.tensor);
    done.push_back(progress.bytes_done);
    EXPECT_EQ(progress.bytes_total, 4 * kElements * sizeof(float));
  };
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner, options).ok());
  EXPECT_THAT(order, ElementsAre("t2", "t0", "t3", "t1"));
  EXPECT_THAT(done, ElementsAre(32, 64, 96, 128));
}

TEST_F(BankTest, ALoadReturnsTheLeasesOwnerAfterOwnerInOrderOfRegistrationEachTensorOnce) {
  const auto source = ScriptedSource::Make("ordered", CountingFloats(4 * kElements));
  const std::vector<LazyTensor> tensors = VectorsOver(source, kElements);
  const Owner prefill = bank_->AddOwner("prefill"), kvcache = bank_->AddOwner("kvcache");
  const auto add = [&](const Owner& owner, std::vector<int> numbers) {
    for (const int i : numbers) ASSERT_TRUE(bank_->Register(owner, tensors[i], "t").ok());
  };
  add(prefill, {2, 0, 2});
  add(kvcache, {3, 0, 1});
  const std::vector<Lease> leases = bank_->Load({&kvcache, &prefill}).value();
  std::vector<Uid> uids;
  for (const Lease& lease : leases) uids.push_back(lease.uid());
  EXPECT_THAT(uids,
              ElementsAre(tensors[3].uid(), tensors[0].uid(), tensors[1].uid(), tensors[2].uid()));
}

TEST_F(BankTest, WhatALoadReturnsIsLeasedWithoutAGap) {
  const TestWeights weights(2);
  const Owner owner = bank_->AddOwner("prefill", {.index = weights.Index()});
  const std::vector<Uid> uids = RegisterAll(owner, weights.Submodel());
  LoadOptions options;
  // Somebody wants room at every moment of the load.
  options.progress = [&](const LoadProgress&) { EXPECT_FALSE(bank_->Evict(1)); };
  const std::vector<Lease> leases = bank_->Load(owner, options).value();
  EXPECT_FALSE(bank_->Evict(1));
  EXPECT_EQ(bank_->Totals().evictions, 0u);
  for (size_t i = 0; i < leases.size(); ++i) {
    EXPECT_EQ(HostBytesAt(leases[i].address(), leases[i].type().bytes()), weights.Expected(i));
  }
}

TEST_F(BankTest, OneWeightIsLoadedByItselfAndGoesWithItsLastLease) {
  const TestWeights weights(1);
  std::optional<Lease> lease = bank_->Load("demo", weights.Submodel()[0]).value();
  EXPECT_EQ(HostBytesAt(lease->address(), lease->type().bytes()), weights.Expected(0));
  EXPECT_EQ(lease->uid(), weights.Submodel()[0].uid());
  EXPECT_THAT(bank_->Snapshot().owners, ElementsAre("demo"));
  Lease copy = *lease;
  lease.reset();
  EXPECT_EQ(bank_->Totals().unique_tensors, 1u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  copy = Lease();
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
  EXPECT_TRUE(bank_->Snapshot().owners.empty());
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
}

TEST_F(BankTest, OneWeightThatCannotBeLoadedLeavesNoOwner) {
  const auto source = ScriptedSource::Make("weights", CountingFloats(kElements));
  source->FailRead(1);
  const absl::Status status = bank_->Load("demo", VectorsOver(source, kElements)[0]).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'demo'"));
  EXPECT_TRUE(bank_->Snapshot().owners.empty());
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

TEST_F(BankTest, ACancelledLoadCanGoOnLater) {
  const TestWeights weights(3);
  const Owner owner = bank_->AddOwner("prefill");
  const std::vector<Uid> uids = RegisterAll(owner, weights.Submodel());
  int finished = 0;
  LoadOptions options;
  options.progress = [&](const LoadProgress&) { ++finished; };
  options.cancelled = [&] { return finished == 2; };
  EXPECT_TRUE(absl::IsCancelled(bank_->EvaluateAndAllocate(owner, options)));
  EXPECT_EQ(memory_->Usage().live_allocations, 2u) << "what was finished stays";
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(Contents(uids[5]), weights.Expected(5));
  EXPECT_EQ(bank_->Totals().evaluations, weights.size());
}

}  // namespace
}  // namespace npubank

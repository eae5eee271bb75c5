// Every call that can fail while a bank loads does fail here, each in turn, once and for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bank/bank.h"
#include "bank/host_memory.h"
#include "lazy_tensor/retention.h"
#include "tests/support/scripted_source.h"
#include "tests/support/test_weights.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 48;
constexpr int kTensors = 5;
constexpr int kFar = 200;  // further than any load here goes

enum class Step { kAllocate, kWrite, kSourceRead };

struct FaultCase {
  Step step;
  bool for_ever;
  bool host_writable;
};

class BankFaultsTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  void SetUp() override {
    memory_ = std::make_shared<HostMemory>(
        HostMemory::Options{.host_writable = GetParam().host_writable, .staging_bytes = 64});
    bank_ = Bank::Create(memory_, {});
    source_ = ScriptedSource::Make("weights", CountingFloats(kElements * kTensors));
    owner_ = bank_->AddOwner("prefill");
    bystander_owner_ = bank_->AddOwner("bystander");
    const auto other = ScriptedSource::Make("other", CountingFloats(kElements, 1000));
    bystander_ = bank_->Register(bystander_owner_, VectorsOver(other, kElements)[0], "bystander")
                     .value()
                     .uid;
    ASSERT_TRUE(bank_->EvaluateAndAllocate(bystander_owner_).ok());
    const std::vector<LazyTensor> tensors = VectorsOver(source_, kElements);
    for (int i = 0; i < kTensors; ++i) {
      uids_.push_back(bank_->Register(owner_, tensors[i], absl::StrCat("w", i)).value().uid);
    }
  }

  // Ends with everything dropped, and nothing left.
  void Drop() {
    uids_.clear();
    owner_ = Owner();
    bystander_owner_ = Owner();
    bank_.reset();
    source_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }

  void Inject(uint64_t nth) {
    const FaultCase& fault = GetParam();
    if (fault.step == Step::kSourceRead) {
      source_->FailRead(nth, fault.for_ever);
      return;
    }
    const auto call = fault.step == Step::kAllocate ? HostMemory::Fault::Call::kAllocate
                                                    : HostMemory::Fault::Call::kWrite;
    memory_->InjectFault({.call = call, .nth = nth, .for_ever = fault.for_ever});
  }

  void ExpectContents(Uid uid, float first) {
    std::vector<std::byte> bytes(kElements * sizeof(float));
    ASSERT_TRUE(bank_->Read(uid, 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, CountingFloats(kElements, first));
  }

  std::shared_ptr<HostMemory> memory_;
  std::shared_ptr<Bank> bank_;
  std::shared_ptr<ScriptedSource> source_;
  Owner owner_;
  Owner bystander_owner_;
  Uid bystander_;
  std::vector<Uid> uids_;
};

TEST_P(BankFaultsTest, AFailedEvaluationLeavesNothingAndCanBeRetried) {
  int failures = 0;
  for (int nth = 1; nth < kFar; ++nth) {
    SCOPED_TRACE(absl::StrCat("call ", nth));
    if (nth > 1) SetUp();
    Inject(nth);
    const absl::Status status = bank_->EvaluateAndAllocate(owner_);
    const BankTotals totals = bank_->Totals();
    EXPECT_EQ(memory_->Usage().live_allocations, totals.evaluations) << "only what is published";
    EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
    if (status.ok()) {
      Drop();
      break;
    }
    ++failures;
    // Tensor 0 is the first that this load evaluates; the bystander was before it.
    const std::string name = absl::StrCat("w", totals.evaluations - 1);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("'", name, "'")));
    EXPECT_EQ(bank_->Snapshot().tensors[totals.evaluations].state, "failed");
    ExpectContents(bystander_, 1000);

    Inject(0);
    ASSERT_TRUE(bank_->EvaluateAndAllocate(owner_).ok());
    for (int i = 0; i < kTensors; ++i) ExpectContents(uids_[i], 1 + i * kElements);
    EXPECT_EQ(bank_->Audit().source_bytes_booked, 0u);
    EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
    Drop();
  }
  EXPECT_GE(failures, kTensors) << "every tensor's step was made to fail";
}

std::string CaseName(const ::testing::TestParamInfo<FaultCase>& info) {
  const char* steps[] = {"Allocate", "Write", "SourceRead"};
  return absl::StrCat(steps[static_cast<int>(info.param.step)],
                      info.param.for_ever ? "ForEver" : "Once",
                      info.param.host_writable ? "InPlace" : "Staged");
}

std::vector<FaultCase> AllCases() {
  std::vector<FaultCase> cases;
  for (Step step : {Step::kAllocate, Step::kWrite, Step::kSourceRead}) {
    for (bool for_ever : {false, true}) {
      for (bool host_writable : {true, false}) cases.push_back({step, for_ever, host_writable});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(EveryCall, BankFaultsTest, ::testing::ValuesIn(AllCases()), CaseName);

TEST(BankFaults, ADeviceThatIsTooSmallSaysSoAndServesTheRest) {
  auto memory = std::make_shared<HostMemory>(HostMemory::Options{.capacity = 2 * 4096});
  const auto bank = Bank::Create(memory, {});
  const auto source = ScriptedSource::Make("weights", CountingFloats(3 * kElements));
  Owner owner = bank->AddOwner("prefill");
  for (const LazyTensor& tensor : VectorsOver(source, kElements)) {
    ASSERT_TRUE(bank->Register(owner, tensor, "w").ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(bank->EvaluateAndAllocate(owner)));
  EXPECT_EQ(memory->Usage().live_allocations, 2u);
  EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
}

}  // namespace
}  // namespace npubank

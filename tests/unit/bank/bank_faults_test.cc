// Every call that can fail while a bank loads does fail here, each in turn, once and forever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 48;
constexpr int kTensors = 5;
constexpr int kFar = 200;  // further than any load here goes

enum class Step { kAllocate, kWrite, kSourceRead };

struct FaultCase {
  Step step;
  bool forever;
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
      source_->FailRead(nth, fault.forever);
      return;
    }
    const auto call = fault.step == Step::kAllocate ? HostMemory::Fault::Call::kAllocate
                                                    : HostMemory::Fault::Call::kWrite;
    memory_->InjectFault({.call = call, .nth = nth, .forever = fault.forever});
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
                      info.param.forever ? "Forever" : "Once",
                      info.param.host_writable ? "InPlace" : "Staged");
}

std::vector<FaultCase> AllCases() {
  std::vector<FaultCase> cases;
  for (Step step : {Step::kAllocate, Step::kWrite, Step::kSourceRead}) {
    for (bool forever : {false, true}) {
      for (bool host_writable : {true, false}) cases.push_back({step, forever, host_writable});
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

// A transformation of several tiles, each of which reads its source: it ends at every point at
// which it can.
class TransformationFaultsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kLong = 80 << 10;  // 160 KiB of halves: three tiles
  enum class Fault { kRead, kReadForEver, kCancelled };

  // Which F16 can hold: counted up to 2048, again and again.
  static std::vector<std::byte> Numbers(int64_t count, float first = 1) {
    std::vector<std::byte> bytes;
    while (count > 0) {
      const std::vector<std::byte> more =
          CountingFloats(static_cast<size_t>(std::min<int64_t>(count, 2048)), first);
      bytes.insert(bytes.end(), more.begin(), more.end());
      count -= 2048;
    }
    return bytes;
  }

  static std::vector<LazyTensor> Halves(const std::shared_ptr<ScriptedSource>& source) {
    std::vector<LazyTensor> halves;
    for (const LazyTensor& stored : VectorsOver(source, kLong)) {
      halves.push_back(stored.Convert(ElementType::kF16).value());
    }
    return halves;
  }

  void ExpectContents(Bank& bank, Uid uid, const LazyTensor& tensor) {
    std::vector<std::byte> expected(tensor.type().bytes());
    ASSERT_TRUE(Evaluate(*tensor.recipe(), absl::MakeSpan(expected), {}).ok());
    std::vector<std::byte> bytes(expected.size());
    ASSERT_TRUE(bank.Read(uid, 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, expected);
  }

  // False when the load was over before the fault came.
  bool FailsAt(Fault kind, int64_t nth) {
    const auto healthy = ScriptedSource::Make("weights", Numbers(2 * kLong));
    const auto source = ScriptedSource::Make("weights", Numbers(2 * kLong));
    const auto memory = std::make_shared<HostMemory>();
    const auto bank = Bank::Create(memory, {});
    const Owner bystander = bank->AddOwner("bystander");
    const LazyTensor other = Halves(ScriptedSource::Make("other", Numbers(kLong, 7)))[0];
    EXPECT_TRUE(bank->Register(bystander, LazyTensor(other.recipe()), "other").ok());
    EXPECT_TRUE(bank->EvaluateAndAllocate(bystander).ok());
    const Owner owner = bank->AddOwner("prefill");
    const std::vector<LazyTensor> tensors = Halves(source);
    EXPECT_TRUE(bank->Register(owner, tensors[0], "w0").ok());
    EXPECT_TRUE(bank->Register(owner, tensors[1], "w1").ok());

    LoadOptions options;
    int64_t asked = 0;
    if (kind == Fault::kCancelled) options.cancelled = [&] { return ++asked == nth; };
    if (kind != Fault::kCancelled) source->FailRead(nth, kind == Fault::kReadForEver);
    const absl::Status status = bank->EvaluateAndAllocate(owner, options);
    source->FailRead(0);
    if (!status.ok()) {
      const uint64_t complete = bank->Totals().evaluations - 1;
      EXPECT_EQ(absl::IsCancelled(status), kind == Fault::kCancelled) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("'w", complete, "'")));
      EXPECT_EQ(memory->Usage().live_allocations, 1 + complete);
      EXPECT_TRUE(tensors[1].recipe() != nullptr) << "it is needed to try again";
    }
    ExpectContents(*bank, other.uid(), other);
    EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
    for (size_t i = 0; i < 2; ++i) {
      ExpectContents(*bank, tensors[i].uid(), Halves(healthy)[i]);
      EXPECT_TRUE(tensors[i].detached());
    }
    return !status.ok();
  }
};

TEST_F(TransformationFaultsTest, EveryPointOfATransformationMayBeItsLast) {
  for (const Fault kind : {Fault::kRead, Fault::kReadForEver, Fault::kCancelled}) {
    int64_t nth = 1;
    while (FailsAt(kind, nth) && !HasFailure()) ++nth;
    EXPECT_GT(nth, 6) << "three tiles of two tensors";
  }
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

// A model that is larger than the budget: refused by name, and in nobody's way.
TEST(BankFaults, AModelTooLargeForTheBudgetLeavesRoomForTheNext) {
  const auto memory = std::make_shared<HostMemory>();
  const auto bank = Bank::Create(memory, {.budget_bytes = 3 * 4096, .share_content = false});
  const TestWeights small(1), large(2, 100);
  const auto load = [&](const Owner& owner, const TestWeights& weights) {
    for (const LazyTensor& tensor : weights.Submodel()) {
      EXPECT_TRUE(bank->Register(owner, tensor, absl::StrCat(owner.name(), " weight")).ok());
    }
    return bank->EvaluateAndAllocate(owner);
  };
  const Owner first = bank->AddOwner("small", {.index = small.Index()});
  ASSERT_TRUE(load(first, small).ok());
  Owner second = bank->AddOwner("large", {.index = large.Index()});
  const absl::Status refused = load(second, large);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tensor 'large weight'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("raise the budget"));
  EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
  EXPECT_LE(memory->Usage().peak_bytes, 3 * 4096u);
  // What it had loaded is idle: it goes when somebody needs the room, dropped or not.
  EXPECT_TRUE(bank->EvaluateAndAllocate(first).ok());
  EXPECT_LE(memory->Usage().peak_bytes, 3 * 4096u);
  second.Release();
  EXPECT_EQ(memory->Usage().live_bytes, 2 * 4096u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

}  // namespace
}  // namespace npubank

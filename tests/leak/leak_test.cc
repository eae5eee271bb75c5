#include "npubank/tests/leak/leak_test.h"

#include <utility>

#include "npubank/bank/books/audit.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {

void LeakTest::SetUp() {
  device_ = GetParam().make();
  ASSERT_NE(device_.memory, nullptr);
  bank_ = Bank::Create(device_.memory, {.workers = std::make_shared<ThreadWorkers>(0)});
  guard_.emplace(std::vector{bank_});
}

void LeakTest::TearDown() {
  if (device_.memory == nullptr) return;
  guard_.reset();
  bank_.reset();
  ExpectNothingOnTheDevice();
}

TestSubmodel LeakTest::Open(const std::string& name, const TestWeights& weights) {
  TestSubmodel submodel;
  submodel.owner = bank_->AddOwner(name);
  submodel.tensors = weights.Submodel();
  return submodel;
}

void LeakTest::Register(TestSubmodel& submodel, size_t tensor) {
  const auto registered =
      bank_->Register(submodel.owner, submodel.tensors[tensor], TestWeights::Name(tensor));
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(submodel.tensors[tensor].detached(), registered->hit)
      << "a hit detaches at once, a miss does not";
  submodel.uids.push_back(registered->uid);
}

void LeakTest::RegisterAll(TestSubmodel& submodel) {
  for (size_t i = 0; i < submodel.tensors.size(); ++i) Register(submodel, i);
}

absl::Status LeakTest::Evaluate(const TestSubmodel& submodel) {
  return bank_->EvaluateAndAllocate(submodel.owner);
}

TestSubmodel LeakTest::Load(const std::string& name) {
  TestSubmodel submodel = Open(name);
  RegisterAll(submodel);
  EXPECT_TRUE(Evaluate(submodel).ok());
  return submodel;
}

void LeakTest::Run(const TestSubmodel& submodel, const TestWeights& weights) {
  std::vector<Lease> leases;
  for (size_t i = 0; i < submodel.uids.size(); ++i) {
    auto lease = bank_->Get(submodel.uids[i]);
    ASSERT_TRUE(lease.ok()) << lease.status();
    leases.push_back(*std::move(lease));
    std::vector<std::byte> bytes(leases.back().type().bytes());
    ASSERT_TRUE(bank_->Read(submodel.uids[i], 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, weights.Expected(i)) << TestWeights::Name(i);
  }
  device_.memory->Trim();  // what reading kept for the next
}

void LeakTest::ExpectOneCopyAndNoSource() {
  const AuditReport report = bank_->Audit();
  EXPECT_TRUE(report.clean()) << report.ToString();
  const BankTotals totals = bank_->Totals();
  EXPECT_EQ(totals.resident_bytes, weights_.Bytes());
  EXPECT_EQ(totals.device_bytes, device_.count().bytes);
  EXPECT_LE(device_.count().allocations, weights_.size());
  EXPECT_EQ(totals.evaluations, weights_.size()) << "each weight was evaluated once";
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

void LeakTest::ExpectNothingOnTheDevice() {
  EXPECT_EQ(device_.count().bytes, 0u);
  EXPECT_EQ(device_.count().allocations, 0u);
}

std::string DeviceName(const ::testing::TestParamInfo<DeviceUnderTest>& device) {
  return device.param.name;
}

}  // namespace npubank

#include "npubank/bank/books/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/host_memory.h"
#include "npubank/tests/support/hooked_memory.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AuditTest : public ::testing::Test {
 protected:
  std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>();
  std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {});
  TestWeights weights_{2};
};

TEST_F(AuditTest, AgreesBeforeWhileAndAfterALoad) {
  Owner owner = bank_->AddOwner("prefill");
  std::vector<LazyTensor> tensors = weights_.Submodel();
  for (const LazyTensor& tensor : tensors) ASSERT_TRUE(bank_->Register(owner, tensor, "w").ok());
  AuditReport report = bank_->Audit();
  EXPECT_TRUE(report.clean()) << report.ToString();
  // Each layer's two tensors stand on one constant: it is held once.
  EXPECT_EQ(report.source_bytes_booked, 2u * TestWeights::kRows * TestWeights::kColumns * 4);
  EXPECT_EQ(report.source_bytes_booked, report.source_bytes_counted);

  ASSERT_TRUE(bank_->Get(tensors[0].uid()).ok());
  report = bank_->Audit();
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_EQ(report.source_bytes_booked, 2u * TestWeights::kRows * TestWeights::kColumns * 4)
      << "the other tensor of the layer still needs the constant";

  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  report = bank_->Audit();
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_EQ(report.source_bytes_counted, 0u);
  EXPECT_EQ(report.device_bytes_booked, 4 * 4096u);
  EXPECT_EQ(report.device_bytes_counted, 4 * 4096u);
}

TEST_F(AuditTest, NamesTheSourceThatSomebodyElseHolds) {
  const auto source = ScriptedSource::Make("forgotten.safetensors", CountingFloats(8));
  const std::vector<LazyTensor> kept = VectorsOver(source, 8);
  const AuditReport report = bank_->Audit();
  EXPECT_FALSE(report.clean());
  EXPECT_THAT(report.discrepancies, ElementsAre(HasSubstr("'forgotten.safetensors': 32 bytes")));
  EXPECT_THAT(report.ToString(), HasSubstr("forgotten.safetensors"));
}

TEST_F(AuditTest, AgreesWhenOneFileWasOpenedTwice) {
  const Owner owner = bank_->AddOwner("prefill");
  ASSERT_TRUE(bank_->Register(owner, weights_.Submodel()[0], "first opening").ok());
  ASSERT_TRUE(bank_->Register(owner, weights_.Submodel()[2], "second opening").ok());
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
}

TEST_F(AuditTest, SeesDeviceBytesThatNobodyAccountsFor) {
  const auto stray = memory_->Allocate(5000, "stray").value();
  EXPECT_THAT(bank_->Audit().discrepancies, ElementsAre(HasSubstr("counts 8192 bytes")));
}

TEST_F(AuditTest, SeesAnImportThatNobodyAccountsFor) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const auto bank = Bank::Create(memory, {});
  const Owner owner = bank->AddOwner("prefill");
  const LazyTensor stored = LazyTensor::Stored(*weights_.Index(), "layer0").value();
  ASSERT_TRUE(bank->Register(owner, stored, "w").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
  const auto file = Source::OpenFile(weights_.path()).value();
  const auto stray = memory->Import(file, 0, 4096, "stray").value();
  EXPECT_THAT(bank->Audit().discrepancies, ElementsAre(HasSubstr("bytes of imported files")));
}

TEST_F(AuditTest, TakesTheWordOfOthersForWhatTheyHold) {
  const auto arena = memory_->Allocate(5000, "arena").value();
  const AuditReport report = bank_->Audit(arena->reserved_bytes());
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_EQ(report.device_bytes_other, 8192u);
  EXPECT_FALSE(bank_->Audit(4096).clean()) << "too little is as wrong as too much";
}

TEST_F(AuditTest, AnotherBanksSourcesAreNoLeakWhenItIsNamed) {
  const std::shared_ptr<Bank> neighbour = Bank::Create(std::make_shared<HostMemory>(), {});
  const Owner owner = neighbour->AddOwner("prefill");
  for (const LazyTensor& tensor : weights_.Submodel()) {
    ASSERT_TRUE(neighbour->Register(owner, tensor, "w").ok());
  }
  const Owner mine = bank_->AddOwner("prefill");
  const auto source = ScriptedSource::Make("mine", CountingFloats(8));
  ASSERT_TRUE(bank_->Register(mine, VectorsOver(source, 8)[0], "mine").ok());
  const AuditReport report = bank_->Audit(0, {neighbour.get()});
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_EQ(report.source_bytes_booked, report.source_bytes_counted);
  EXPECT_FALSE(bank_->Audit().clean()) << "source bytes are the process's";
}

TEST_F(AuditTest, BanksMayShareADeviceMemory) {
  const auto memory = std::make_shared<HookedMemory>();
  memory->imports = true;
  const std::shared_ptr<Bank> banks[] = {Bank::Create(memory, {}), Bank::Create(memory, {})};
  std::vector<Owner> owners;
  for (const std::shared_ptr<Bank>& bank : banks) {
    owners.push_back(bank->AddOwner("prefill"));
    const LazyTensor stored = LazyTensor::Stored(*weights_.Index(), "layer0").value();
    ASSERT_TRUE(bank->Register(owners.back(), stored, "imported").ok());
    ASSERT_TRUE(bank->Register(owners.back(), weights_.Submodel()[0], "written").ok());
    ASSERT_TRUE(bank->EvaluateAndAllocate(owners.back()).ok());
  }
  const AuditReport report = banks[0]->Audit(0, {banks[1].get()});
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_EQ(report.device_bytes_other, 4096u);
  EXPECT_EQ(banks[0]->Audit().discrepancies.size(), 2u) << "written and imported bytes";
}

// Counts as drivers do: what was asked for, and buffers of its own.
class CountingDriver final : public HostMemory {
 public:
  DeviceUsage Usage() const override {
    DeviceUsage usage = HostMemory::Usage();
    usage.asked_bytes = asked;
    usage.pinned_bytes = pinned;
    return usage;
  }
  absl::StatusOr<uint64_t> DriverBytes() const override { return counted; }

  uint64_t asked = 0, pinned = 0, counted = 0;
};

TEST_F(AuditTest, ADriversCountIsWhatWasAskedForAndImportedAndWhatIsToldApart) {
  const auto driver = std::make_shared<CountingDriver>();
  driver->counted = 700;  // before any weight
  const auto bank = Bank::Create(driver, {});
  const Owner owner = bank->AddOwner("prefill");
  ASSERT_TRUE(bank->Register(owner, weights_.Submodel()[0], "w").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  driver->asked = 1920;  // and not the page that it lies in
  driver->pinned = 8192;
  driver->counted = 700 + 1920 + 8192 + 300;
  const AuditReport report = bank->Audit();
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_TRUE(report.driver_counts);
  EXPECT_EQ(report.driver_bytes_before, 700u);
  EXPECT_EQ(report.driver_bytes_asked, 1920u);
  EXPECT_EQ(report.driver_bytes_imported, 8192u);
  EXPECT_EQ(report.driver_bytes_apart, 300);
  EXPECT_NE(report.ToString().find("1920 asked for + 8192 imported + 700 before any weight + 300"),
            std::string::npos)
      << report.ToString();
  driver->counted = 300;  // what was there before is gone
  EXPECT_EQ(bank->Audit().driver_bytes_apart, 300 - 700 - 1920 - 8192);
  EXPECT_FALSE(bank->Audit().clean()) << "fewer than were asked for";
  driver->counted = 1920 + 8192;
  EXPECT_TRUE(bank->Audit().clean()) << "what others gave back is nothing of ours";
}

TEST_F(AuditTest, LeasedTensorsWithoutOwnerAreAccountedFor) {
  Owner owner = bank_->AddOwner("prefill");
  const Uid uid = bank_->Register(owner, weights_.Submodel()[0], "w").value().uid;
  const Lease lease = bank_->Get(uid).value();
  owner.Release();
  const AuditReport report = bank_->Audit();
  EXPECT_TRUE(report.clean()) << report.ToString();
  EXPECT_EQ(report.device_bytes_booked, 4096u);
}

}  // namespace
}  // namespace npubank

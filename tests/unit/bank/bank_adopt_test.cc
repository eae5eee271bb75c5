// Tensors that an earlier process made, whose memory the bank is handed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/host_memory.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

class BankAdoptTest : public ::testing::Test {
 protected:
  void TearDown() override {
    bank_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  }
  // As an earlier process would have left it.
  std::unique_ptr<DeviceAllocation> MemoryOf(size_t tensor) {
    const std::vector<std::byte> bytes = weights_.Expected(tensor);
    auto memory = memory_->Allocate(bytes.size(), "left behind").value();
    EXPECT_TRUE(memory_
                    ->Write(*memory,
                            [&](uint64_t offset, absl::Span<std::byte> out) {
                              std::memcpy(out.data(), bytes.data() + offset, out.size());
                              return absl::OkStatus();
                            })
                    .ok());
    return memory;
  }
  AdoptedTensor Tensor(size_t tensor) const {
    const LazyTensor of = weights_.Submodel()[tensor];
    return {.digest = of.digest(), .stamp = of.stamp(), .type = of.type(), .name = "left behind"};
  }
  absl::Status Adopt(size_t tensor) { return bank_->Adopt({Tensor(tensor)}, MemoryOf(tensor)); }

  const TestWeights weights_{2};
  std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>();
  std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {.keep_unowned = true});
};

TEST_F(BankAdoptTest, WhatWasAdoptedIsResidentAndNotEvaluatedAgain) {
  for (size_t i = 0; i < weights_.size(); ++i) ASSERT_TRUE(Adopt(i).ok());
  EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
  const Owner owner = bank_->AddOwner("prefill", {.index = weights_.Index()});
  for (const LazyTensor& tensor : weights_.Submodel()) {
    EXPECT_TRUE(bank_->Register(owner, tensor, "w").value().hit);
  }
  const std::vector<Lease> leases = bank_->Load(owner).value();
  for (size_t i = 0; i < leases.size(); ++i) {
    EXPECT_EQ(HostBytesAt(leases[i].address(), leases[i].bytes()), weights_.Expected(i));
  }
  EXPECT_EQ(bank_->Totals().evaluations, 0u);
  EXPECT_EQ(bank_->Snapshot().tensors[0].origin, "adopted");
}

TEST_F(BankAdoptTest, ItLeavesForRoomAndComesBackThroughWhoOwnsIt) {
  ASSERT_TRUE(Adopt(0).ok());
  const Owner owner = bank_->AddOwner("prefill", {.index = weights_.Index()});
  ASSERT_TRUE(bank_->Register(owner, weights_.Submodel()[0], "w").ok());
  ASSERT_TRUE(bank_->Evict(1));
  const std::vector<Lease> leases = bank_->Load(owner).value();
  EXPECT_EQ(HostBytesAt(leases[0].address(), leases[0].bytes()), weights_.Expected(0));
  EXPECT_EQ(bank_->Totals().evaluations, 1u);
}

TEST_F(BankAdoptTest, WhatCannotBeAdoptedIsRefusedAndFreed) {
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Adopt({}, MemoryOf(0))));
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Adopt({Tensor(1)}, MemoryOf(0)))) << "of another size";
  EXPECT_TRUE(absl::IsInvalidArgument(bank_->Adopt({Tensor(0)}, nullptr)));
  EXPECT_TRUE(absl::IsAlreadyExists(bank_->Adopt({Tensor(0), Tensor(0)}, MemoryOf(0))));
  ASSERT_TRUE(Adopt(0).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Adopt(0)));
  EXPECT_EQ(memory_->Usage().live_allocations, 1u);
  bank_ = Bank::Create(memory_, {.budget_bytes = 100, .keep_unowned = true});
  EXPECT_TRUE(absl::IsResourceExhausted(Adopt(0)));
  bank_ = Bank::Create(memory_, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(Adopt(0))) << "it keeps nothing unowned";
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
}

TEST_F(BankAdoptTest, WhatNobodyHasWantedForSoLongLeavesByItsOwnAge) {
  ASSERT_TRUE(Adopt(0).ok());
  ASSERT_TRUE(Adopt(1).ok());
  const Uid uid = Uid::Of(Tensor(0).digest);
  Lease lease = bank_->Get(uid).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  lease = Lease();  // its age begins anew
  EXPECT_EQ(bank_->Trim(std::chrono::hours(1)), 0u);
  EXPECT_GT(bank_->Trim(std::chrono::milliseconds(3)), 0u);
  EXPECT_TRUE(bank_->Inspect(uid).ok() || bank_->Totals().unique_tensors == 0);
  EXPECT_FALSE(bank_->Inspect(Uid::Of(Tensor(1).digest)).ok());
  bank_->Trim();
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

}  // namespace
}  // namespace npubank

#include "npubank/bank/testing.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "npubank/bank/host_memory.h"
#include "npubank/tests/support/test_weights.h"

namespace npubank {
namespace {

TEST(LeakGuard, IsSilentWhenAScopeLeavesNothing) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights(2);
  const LeakGuard guard({bank});
  const Owner owner = bank->AddOwner("prefill");
  for (const LazyTensor& tensor : weights.Submodel()) {
    ASSERT_TRUE(bank->Register(owner, tensor, "w").ok());
  }
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
}

TEST(LeakGuard, NamesTheSourceThatIsStillHeld) {
  std::vector<LazyTensor> kept;
  EXPECT_NONFATAL_FAILURE(
      {
        const TestWeights weights(1);
        const LeakGuard guard({});
        kept = weights.Submodel();
      },
      "weights.bin");
}

TEST(LeakGuard, NamesTheOwnerAndTheLeaseThatAreLeft) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights(1);
  Owner owner;
  Lease lease;
  const auto leave_a_lease = [&] {
    owner = bank->AddOwner("forgotten");
    lease = bank->Get(bank->Register(owner, weights.Submodel()[0], "wq")->uid).value();
  };
  EXPECT_NONFATAL_FAILURE(
      {
        const LeakGuard guard({bank});
        leave_a_lease();
      },
      "'wq' resident, 4096 device bytes, 1 leases, owners: forgotten");
}

TEST(LeakGuard, NamesTheTensorThatIsKeptThoughItIsNowhere) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights(1);
  Owner owner;
  const auto sleep = [&] {
    owner = bank->AddOwner("sleeper", {.index = weights.Index()});
    ASSERT_TRUE(bank->Register(owner, weights.Submodel()[0], "wq").ok());
    ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
    ASSERT_TRUE(bank->Sleep(owner).ok());
  };
  EXPECT_NONFATAL_FAILURE(
      {
        const LeakGuard guard({bank});
        sleep();
      },
      "tensors: 1, 0 at the start");
}

TEST(LeakGuard, SeesDeviceMemoryThatIsNotTheBanks) {
  const auto memory = std::make_shared<HostMemory>();
  const auto bank = Bank::Create(memory, {});
  const auto known = memory->Allocate(5000, "an arena that was there before").value();
  std::unique_ptr<DeviceAllocation> arena;
  EXPECT_NONFATAL_FAILURE(
      {
        const LeakGuard guard({bank});
        arena = memory->Allocate(100, "arena").value();
      },
      "the audit says: the device memory counts 12288 bytes; tensors have 0 and others 8192");
}

TEST(LeakGuard, IsSilentAboutWhatWasThereBefore) {
  const auto memory = std::make_shared<HostMemory>();
  const auto bank = Bank::Create(memory, {});
  const TestWeights weights(1);
  const std::vector<LazyTensor> held = weights.Submodel();
  const auto arena = memory->Allocate(5000, "arena").value();
  const Owner owner = bank->AddOwner("prefill");
  ASSERT_TRUE(bank->Register(owner, held[0], "wq").ok());
  const LeakGuard guard({bank});
  const Owner other = bank->AddOwner("kvcache");
  ASSERT_TRUE(bank->Register(other, weights.Submodel()[0], "wq").ok());
}

}  // namespace
}  // namespace npubank

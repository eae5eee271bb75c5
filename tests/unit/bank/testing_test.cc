#include "bank/testing.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "bank/host_memory.h"
#include "tests/support/test_weights.h"

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

}  // namespace
}  // namespace npubank

// An embedder's tests: the suite of device memories and LeakGuard, from the installed tree.
#include "npubank/bank/device_memory_suite.h"
#include "npubank/bank/host_memory.h"
#include "npubank/bank/testing.h"

namespace npubank {
namespace {

INSTANTIATE_TEST_SUITE_P(Mine, DeviceMemorySuite,
                         ::testing::Values(DeviceMemoryUnderTest{
                             .name = "host",
                             .create = [] { return std::make_shared<HostMemory>(); }}),
                         DeviceMemoryName);

TEST(Mine, AModelThatComesAndGoesLeavesNothing) {
  auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  LeakGuard guard({bank});
  auto ones = LazyTensor::Splat({}, 0x3F800000);
  auto lease = bank->Load("mine", *ones);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_NE(guard.Describe(), "") << "it is there";
}

}  // namespace
}  // namespace npubank

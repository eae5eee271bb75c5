// An embedder's own leak test, with GoogleTest: a scope that must leave nothing, and what it says when something is left.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/device_memory_suite.h"
#include "npubank/bank/host_memory.h"
#include "npubank/bank/testing.h"

namespace npubank {
namespace {

class MyServer {
 public:
  explicit MyServer(std::shared_ptr<Bank> bank) : bank_(std::move(bank)) {}

  absl::Status AddModel(const std::string& name) {
    Owner owner = bank_->AddOwner(name);
    absl::StatusOr<LazyTensor> weight = LazyTensor::Splat(TensorType(), 0x3F800000);
    if (!weight.ok()) return weight.status();
    if (auto known = bank_->Register(owner, *weight, "weight"); !known.ok()) return known.status();
    absl::StatusOr<std::vector<Lease>> leases = bank_->Load(owner);
    if (!leases.ok()) return leases.status();
    owners_.push_back(std::move(owner));
    return absl::OkStatus();
  }
  void RemoveModels() { owners_.clear(); }

 private:
  std::shared_ptr<Bank> bank_;
  std::vector<Owner> owners_;
};

TEST(MyServer, LeavesNothingOfAModelThatCameAndWent) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  MyServer server(bank);
  LeakGuard guard({bank});
  ASSERT_TRUE(server.AddModel("chat").ok());
  EXPECT_NE(guard.Describe(), "") << "while it is there it is named";
  server.RemoveModels();
}  // the guard fails the test here, and names each thing, if anything is left

// The tests that every device memory must pass, on one's own: here HostMemory stands for it.
INSTANTIATE_TEST_SUITE_P(Mine, DeviceMemorySuite,
                         ::testing::Values(DeviceMemoryUnderTest{
                             .name = "mine",
                             .create = [] { return std::make_shared<HostMemory>(); }}),
                         DeviceMemoryName);

}  // namespace
}  // namespace npubank

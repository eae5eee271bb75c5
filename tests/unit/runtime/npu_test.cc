#include "npubank/runtime/npu.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

constexpr auto kSoftware = level_zero::DeviceChoice::kSoftware;

NpuMemoryOptions Quiet(MemoryStrategy strategy = MemoryStrategy::kAuto) {
  return {.strategy = strategy, .notice = [](absl::string_view) {}};
}

TEST(NpuTest, DeviceMemoryAndWorkersBelongTogether) {
  const auto npu = Npu::Open({.device = kSoftware, .memory = Quiet(), .workers = 3});
  ASSERT_TRUE(npu.ok()) << npu.status();
  ASSERT_NE((*npu)->device(), nullptr);
  ASSERT_NE((*npu)->memory(), nullptr);
  ASSERT_NE((*npu)->workers(), nullptr);
  EXPECT_EQ((*npu)->workers()->count(), 3);
  const auto allocation = (*npu)->memory()->Allocate(10000, "wq");
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  const auto held = (*npu)->device()->AllocatedBytes();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_GE(*held, 10000u) << "the memory is of that device's context";
}

TEST(NpuTest, NothingSaidMeansAuto) {
  const NpuSwitches switches({{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"}, {"NPUBANK_NPU_IMPORT", "1"}});
  const auto npu = Npu::Open();
  ASSERT_TRUE(npu.ok()) << npu.status();
  EXPECT_EQ((*npu)->memory()->strategy(), MemoryStrategy::kTiled);
  EXPECT_TRUE((*npu)->memory()->imports());
  const auto memory = NpuMemory::Create((*npu)->device());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->strategy(), MemoryStrategy::kTiled) << "with and without options";
  EXPECT_TRUE((*memory)->imports());
}

TEST(NpuTest, ItsBankLivesOnItsMemoryAndOutlivesIt) {
  auto npu = Npu::Open({.device = kSoftware, .memory = Quiet(), .workers = 0});
  ASSERT_TRUE(npu.ok()) << npu.status();
  const level_zero::SoftwareNpuExtension& software = *(*npu)->device()->software();
  const std::weak_ptr<NpuMemory> memory = (*npu)->memory();
  auto bank = (*npu)->MakeBank({.budget_bytes = 1 << 20});
  ASSERT_TRUE(bank.ok()) << bank.status();
  npu->reset();
  ASSERT_FALSE(memory.expired()) << "the bank keeps what it needs";
  {
    Owner owner = (*bank)->AddOwner("demo");
    const auto source = Source::FromBuffer(CountingFloats(2048), "numbers");
    ASSERT_TRUE((*bank)->Register(owner, VectorsOver(source, 2048)[0], "numbers").ok());
    ASSERT_TRUE((*bank)->EvaluateAndAllocate(owner).ok());
    EXPECT_GE(memory.lock()->Usage().live_bytes, 8192u);
  }
  bank->reset();
  EXPECT_TRUE(memory.expired());
  ExpectNothingLeft(software, "after the bank");
}

TEST(NpuTest, FewerThanNoWorkersAreRefused) {
  const absl::Status status = Npu::Open({.device = kSoftware, .workers = -1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace npubank

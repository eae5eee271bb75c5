#include <gtest/gtest.h>

#include "runtime/level_zero/device.h"
#include "runtime/memory/npu_memory.h"
#include "tests/leak/leak_test.h"

namespace npubank {
namespace {

std::shared_ptr<DeviceMemory> MakeNpuMemory() {
  auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
  EXPECT_TRUE(device.ok()) << device.status();
  if (!device.ok()) return nullptr;
  auto memory = NpuMemory::Create(*std::move(device));
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? *std::move(memory) : nullptr;
}

}  // namespace

std::vector<DeviceUnderTest> DevicesUnderTest() { return {{"SoftwareNpu", MakeNpuMemory}}; }

}  // namespace npubank

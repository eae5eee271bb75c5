#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/tests/leak/leak_test.h"
#include "npubank/tests/support/npu_switches.h"

namespace npubank {
namespace {

TestDevice MakeNpuDevice() {
  auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
  EXPECT_TRUE(device.ok()) << device.status();
  if (!device.ok()) return {};
  const level_zero::SoftwareNpuExtension* const software = (*device)->software();
  EXPECT_NE(software, nullptr) << "not the software NPU";
  auto memory = NpuMemory::Create(*std::move(device), {.strategy = MemoryStrategy::kCommitted});
  EXPECT_TRUE(memory.ok()) << memory.status();
  if (software == nullptr || !memory.ok()) return {};
  const auto count = [software] {
    level_zero::SoftwareNpuStatistics driver;
    software->pfnGetStatistics(&driver);
    return DeviceCount{.bytes = driver.live_bytes, .allocations = driver.live_allocations};
  };
  return {.memory = *std::move(memory), .count = count};
}

// Memory that the host cannot touch: bytes go through staging rings. It is so until the device goes.
TestDevice MakeDiscreteDevice() {
  const auto switches = std::make_shared<const NpuSwitches>(
      std::map<std::string, std::string>{{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  TestDevice device = MakeNpuDevice();
  EXPECT_TRUE(device.memory->Allocate(1, "the first of the process, of which the driver keeps a file").ok());
  device.count = [switches, count = std::move(device.count)] { return count(); };
  return device;
}

}  // namespace

std::vector<DeviceUnderTest> DevicesUnderTest() {
  return {{"SoftwareNpu", MakeNpuDevice}, {"DiscreteSoftwareNpu", MakeDiscreteDevice}};
}

}  // namespace npubank

// The suite that embedders run on their device memories, on ours.
#include "npubank/bank/device_memory_suite.h"

#include "npubank/bank/host_memory.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"

namespace npubank {
namespace {

constexpr uint64_t kCapacity = 96 << 20;

DeviceMemoryUnderTest Host(std::string name, bool host_writable) {
  const auto create = [host_writable] {
    return std::make_shared<HostMemory>(
        HostMemory::Options{.capacity = kCapacity, .host_writable = host_writable});
  };
  return {.name = std::move(name), .create = create, .capacity = kCapacity};
}

// NPUBANK_NPU_CAPACITY says the same to the driver. What it cannot do, it does the next best way.
DeviceMemoryUnderTest Npu(MemoryStrategy strategy) {
  const auto create = [strategy]() -> absl::StatusOr<std::shared_ptr<DeviceMemory>> {
    auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
    if (!device.ok()) return device.status();
    return NpuMemory::Create(*std::move(device),
                             {.strategy = strategy, .notice = [](absl::string_view) {}});
  };
  return {
      .name = std::string(MemoryStrategyName(strategy)), .create = create, .capacity = kCapacity};
}

INSTANTIATE_TEST_SUITE_P(Host, DeviceMemorySuite,
                         ::testing::Values(Host("writable", true), Host("unwritable", false)),
                         DeviceMemoryName);
INSTANTIATE_TEST_SUITE_P(Npu, DeviceMemorySuite,
                         ::testing::Values(Npu(MemoryStrategy::kCommitted),
                                           Npu(MemoryStrategy::kPlaced),
                                           Npu(MemoryStrategy::kTiled)),
                         DeviceMemoryName);

}  // namespace
}  // namespace npubank

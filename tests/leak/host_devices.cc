#include <memory>
#include <utility>

#include "npubank/bank/host_memory.h"
#include "npubank/tests/leak/leak_test.h"

namespace npubank {
namespace {

TestDevice MakeHostDevice(HostMemory::Options options) {
  auto memory = std::make_shared<HostMemory>(options);
  const auto count = [memory] {
    const DeviceUsage usage = memory->Usage();
    return DeviceCount{.bytes = usage.live_bytes, .allocations = usage.live_allocations};
  };
  return {.memory = std::move(memory), .count = count};
}

}  // namespace

std::vector<DeviceUnderTest> DevicesUnderTest() {
  return {
      {"HostMemory", [] { return MakeHostDevice({}); }},
      {"StagedHostMemory",
       [] { return MakeHostDevice({.host_writable = false, .staging_bytes = 256}); }},
  };
}

}  // namespace npubank

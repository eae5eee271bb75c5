#include "bank/host_memory.h"
#include "tests/leak/leak_test.h"

namespace npubank {

std::vector<DeviceUnderTest> DevicesUnderTest() {
  return {
      {"HostMemory", [] { return std::make_shared<HostMemory>(); }},
      {"StagedHostMemory",
       [] {
         return std::make_shared<HostMemory>(
             HostMemory::Options{.host_writable = false, .staging_bytes = 256});
       }},
  };
}

}  // namespace npubank

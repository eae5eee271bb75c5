// NpuSwitches: what the environment makes of the software NPU, for as long as the object lives.
//
//   const NpuSwitches switches({{"NPUBANK_NPU_IMPORT", "1"}});
//
// For this process's driver, which must have been opened by nobody else meanwhile, and for programs
// that the test starts. The names are those of runtime/software_npu/README.md.
#ifndef NPUBANK_TESTS_SUPPORT_NPU_SWITCHES_H_
#define NPUBANK_TESTS_SUPPORT_NPU_SWITCHES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "npubank/runtime/level_zero/device.h"

namespace npubank {

class NpuSwitches {
 public:
  explicit NpuSwitches(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
    Reload();
  }
  ~NpuSwitches() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
    Reload();
  }
  NpuSwitches(const NpuSwitches&) = delete;
  NpuSwitches& operator=(const NpuSwitches&) = delete;

 private:
  // The driver reads its environment once, unless it is asked to.
  static void Reload() {
    const auto device = level_zero::Device::Open(level_zero::DeviceChoice::kSoftware);
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_NE((*device)->software(), nullptr) << "not the software NPU";
    (*device)->software()->pfnReloadSwitches();
  }

  const std::map<std::string, std::string> variables_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_NPU_SWITCHES_H_

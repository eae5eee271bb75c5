// Choosing a driver, in a process of its own: Level Zero is initialised once.
#include "npubank/runtime/level_zero/loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace npubank::level_zero {
namespace {

TEST(InitLoader, AChoiceWhoseDriverIsNotThereBindsNobodyAndTheOneThatIsTakenBindsAll) {
  unsetenv("ZE_ENABLE_ALT_DRIVERS");
  // It goes by the name of the hardware's driver, which is found from then on.
  ASSERT_NE(dlopen(BROKEN_DRIVER, RTLD_NOW), nullptr) << dlerror();
  const absl::Status broken = InitLoader(DeviceChoice::kHardware);
  EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
  EXPECT_NE(broken.message().find("libze_intel_npu.so.1"), absl::string_view::npos) << broken;

  const std::filesystem::path program = std::filesystem::canonical("/proc/self/exe");
  const std::filesystem::path driver = program.parent_path() / "libze_software_npu.so";
  std::filesystem::remove(driver);
  const absl::Status missing = InitLoader(DeviceChoice::kSoftware);
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;

  std::filesystem::create_symlink(SOFTWARE_NPU, driver);
  const absl::Status found = InitLoader(DeviceChoice::kSoftware);
  EXPECT_TRUE(found.ok()) << "it was built meanwhile: " << found;
  EXPECT_TRUE(InitLoader(DeviceChoice::kAuto).ok()) << "whatever there is";
  const absl::Status other = InitLoader(DeviceChoice::kHardware);
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  std::filesystem::remove(driver);
}

}  // namespace
}  // namespace npubank::level_zero

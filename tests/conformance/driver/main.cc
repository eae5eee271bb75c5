// driver_conformance: whether a Level Zero driver behaves as the facts about a real NPU say.
//
//   driver_conformance [--driver PATH] [--gtest_filter=...]
//
// PATH is the driver's library; without it, what ZE_ENABLE_ALT_DRIVERS names, or else the software
// NPU beside this program. What only the software NPU can be asked is skipped for other drivers.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

// The value of --driver, taken out of the arguments; null: not there.
const char* TakeDriver(int* argc, char** argv) {
  constexpr char kFlag[] = "--driver";
  constexpr size_t kLength = sizeof(kFlag) - 1;
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp(argv[i], kFlag, kLength) != 0) continue;
    const bool joined = argv[i][kLength] == '=';
    if (!joined && (argv[i][kLength] != 0 || i + 1 == *argc)) continue;
    const char* const path = joined ? argv[i] + kLength + 1 : argv[i + 1];
    const int taken = joined ? 1 : 2;
    for (int k = i; k + taken <= *argc; ++k) argv[k] = argv[k + taken];
    *argc -= taken;
    return path;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* driver = TakeDriver(&argc, argv)) setenv("ZE_ENABLE_ALT_DRIVERS", driver, 1);
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  setenv("ZE_ENABLE_ALT_DRIVERS", (self.parent_path() / "libze_software_npu.so").c_str(), 0);
  std::printf("driver: %s\n", std::getenv("ZE_ENABLE_ALT_DRIVERS"));
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

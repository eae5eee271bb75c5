// Calls that are made to fail, and a device that is made to go.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <level_zero/ze_ddi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

class FaultTest : public DriverTest {
 protected:
  ze_result_t AllocateAndFree() {
    void* memory = nullptr;
    const ze_result_t result = TryAllocate(ZE_MEMORY_TYPE_DEVICE, 1, &memory);
    if (result == ZE_RESULT_SUCCESS) Free(memory);
    return result;
  }
};

TEST_F(FaultTest, TheNthCallFailsOnce) {
  Software().pfnFailCall("zeMemAllocDevice", 3, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
}

TEST_F(FaultTest, TheNthCallAndAllAfterItFail) {
  Software().pfnFailCall("zeMemAllocDevice", 2, 1, ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_ERROR_DEVICE_LOST);
  Software().pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
}

TEST_F(FaultTest, NoNameStandsForEveryCallThatCanFail) {
  Software().pfnFailCall("", 2, 0, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS) << "freeing does not count";
  const ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_context_handle_t context = nullptr;
  EXPECT_EQ(zeContextCreate(driver_, &desc, &context), ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
}

TEST_F(FaultTest, CallsAreCounted) {
  Software().pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
  uint64_t count = 0;
  ASSERT_EQ(Software().pfnCountCalls("zeMemAllocDevice", &count), ZE_RESULT_SUCCESS);
  EXPECT_EQ(count, 3u);
  ASSERT_EQ(Software().pfnCountCalls("zeMemFree", &count), ZE_RESULT_SUCCESS);
  EXPECT_EQ(count, 3u);
  ASSERT_EQ(Software().pfnCountCalls("", &count), ZE_RESULT_SUCCESS);
  EXPECT_EQ(count, 3u);
}

// What is decided once per process runs in a process of its own, which a test starts as another run of its
// program with one test; in the run of all tests that one steps aside.
constexpr char kAlone[] = "NPUBANK_TEST_ALONE";

int RunAlone(const char* test) {
  const std::string command = "/proc/self/exe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string filter = std::string("--gtest_filter=") + test;
    setenv(kAlone, "1", 1);
    execl(command.c_str(), "alone", filter.c_str(), "--gtest_brief=1", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(FaultTest, TheEnvironmentNamesFaults) {
  setenv("NPUBANK_NPU_FAIL", "zeMemAllocDevice:1,zeMemAllocHost:2:forever", 1);
  EXPECT_EQ(RunAlone("FaultTest.AloneFaultsOfTheEnvironment"), 0);
  unsetenv("NPUBANK_NPU_FAIL");
}

TEST_F(FaultTest, AloneFaultsOfTheEnvironment) {
  if (!std::getenv(kAlone))
    GTEST_SKIP() << "run by TheEnvironmentNamesFaults in a process of its own";
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(AllocateAndFree(), ZE_RESULT_SUCCESS);
  Free(Host(1));
  void* memory = nullptr;
  EXPECT_EQ(TryAllocate(ZE_MEMORY_TYPE_HOST, 1, &memory), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(TryAllocate(ZE_MEMORY_TYPE_HOST, 1, &memory), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(FaultTest, AProcessThatBeganWithGpusOnlyGetsNoNpuLater) {
  EXPECT_EQ(RunAlone("AloneTest.GpusOnlyAndThenAnNpu"), 0);
}

// Not a DriverTest: those begin by initialising.
TEST(AloneTest, GpusOnlyAndThenAnNpu) {
  if (!std::getenv(kAlone))
    GTEST_SKIP() << "run by AProcessThatBeganWithGpusOnlyGetsNoNpuLater in a process of its own";
  // Of the driver itself: a loader does not ask again one that would not start.
  void* const driver = dlopen(std::getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  const auto get_table =
      reinterpret_cast<ze_pfnGetGlobalProcAddrTable_t>(dlsym(driver, "zeGetGlobalProcAddrTable"));
  ASSERT_NE(get_table, nullptr);
  ze_global_dditable_t table = {};
  ASSERT_EQ(get_table(ZE_API_VERSION_CURRENT, &table), ZE_RESULT_SUCCESS);
  EXPECT_EQ(table.pfnInit(ZE_INIT_FLAG_GPU_ONLY), ZE_RESULT_ERROR_UNINITIALIZED);
  EXPECT_EQ(table.pfnInit(ZE_INIT_FLAG_VPU_ONLY), ZE_RESULT_ERROR_UNINITIALIZED);
}

TEST_F(FaultTest, ADeviceThatIsLostStaysLost) {
  EXPECT_EQ(RunAlone("FaultTest.AloneDeviceLostAtTheSecondSubmission"), 0);
}

TEST_F(FaultTest, AloneDeviceLostAtTheSecondSubmission) {
  if (!std::getenv(kAlone))
    GTEST_SKIP() << "run by ADeviceThatIsLostStaysLost in a process of its own";
  SetSwitches({{"NPUBANK_NPU_DEVICE_LOST", "2"}});
  uint8_t* const memory = Device(64);
  EXPECT_EQ(Copy(memory, memory + 32, 32), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Copy(memory, memory + 32, 32), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(Copy(memory, memory + 32, 32), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(zeDeviceGetStatus(device_), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(zeContextGetStatus(context_), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(zeCommandQueueSynchronize(queue_, kForever), ZE_RESULT_ERROR_DEVICE_LOST);
  Free(memory);
}

}  // namespace
}  // namespace npubank

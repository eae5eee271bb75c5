// DriverTest: an NPU found through the real loader, whosever driver it is, with short ways to make
// things.
//
//   class MemoryTest : public DriverTest {};
//   TEST_F(MemoryTest, ...) { uint8_t* bytes = Device(100); ... Free(bytes); }
//   TEST_F(MemoryTest, ...) { NPUBANK_NEEDS_SOFTWARE_NPU(); ... Statistics() ... SetSwitches() ... }
//
// Every test must give back what it made: on the software NPU, TearDown compares the driver's own
// counts. Handles from New... are destroyed by TearDown; memory is the test's.
#ifndef NPUBANK_TESTS_CONFORMANCE_DRIVER_FIXTURE_H_
#define NPUBANK_TESTS_CONFORMANCE_DRIVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <level_zero/ze_api.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/runtime/level_zero/software_npu_extension.h"

namespace npubank {

// Of a driver that is not the software NPU, what this test asks cannot be known.
#define NPUBANK_NEEDS_SOFTWARE_NPU() \
  if (!IsSoftwareNpu()) GTEST_SKIP() << "asks the software NPU's own counts or switches"

inline constexpr uint64_t kForever = UINT64_MAX;
inline constexpr uint64_t kMillisecond = 1'000'000;  // in the nanoseconds that waits take
inline constexpr uint32_t kReadOnly = ZE_HOST_MEM_ALLOC_FLAG_BIAS_WRITE_COMBINED;  // of an import

class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  static bool IsSoftwareNpu();
  static level_zero::SoftwareNpuStatistics Statistics();
  static const level_zero::SoftwareNpuExtension& Software();
  bool HasExtension(const std::string& name) const;
  // What the context query says is allocated.
  uint64_t Allocated() const;
  // Sets switches of the software NPU until the end of the test.
  void SetSwitches(const std::map<std::string, std::string>& variables);

  // Memory; a failure fails the test and gives null.
  uint8_t* Host(size_t bytes) { return Allocate(ZE_MEMORY_TYPE_HOST, bytes); }
  uint8_t* Device(size_t bytes) { return Allocate(ZE_MEMORY_TYPE_DEVICE, bytes); }
  uint8_t* Allocate(ze_memory_type_t type, size_t bytes);
  ze_result_t TryAllocate(ze_memory_type_t type, size_t bytes, void** out, size_t alignment = 0,
                          uint32_t flags = 0, const void* chain = nullptr);
  // System memory, by ZE_extension_external_memmap_sysmem.
  ze_result_t ImportPages(void* memory, size_t bytes, uint32_t flags, void** out);
  // Whether importing a file's pages and reading them costs the process no more than mapping them
  // does, each page shared between those that have it.
  bool ImportsWithoutACopy(int fd, size_t bytes, int protection, uint32_t flags);
  // Seconds that `call` takes.
  template <class Call>
  static double Seconds(Call call) {
    using std::chrono::steady_clock;
    const auto begin = steady_clock::now();
    call();
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
  }
  void Free(void* pointer) { EXPECT_EQ(zeMemFree(context_, pointer), ZE_RESULT_SUCCESS); }

  ze_command_list_handle_t NewList();
  // A closed list that waits for `event`, so that it stays in flight until the event is signaled.
  ze_command_list_handle_t NewWaitingList(ze_event_handle_t event);
  // An empty list, closed.
  ze_command_list_handle_t NewClosedList();
  // The test destroyed it, or will.
  void Forget(ze_command_list_handle_t list);
  ze_fence_handle_t NewFence();
  void Forget(ze_fence_handle_t fence);
  // Events of one pool, made with it.
  std::vector<ze_event_handle_t> NewEvents(uint32_t count);

  ze_result_t Submit(ze_command_list_handle_t list, ze_fence_handle_t fence) {
    return zeCommandQueueExecuteCommandLists(queue_, 1, &list, fence);
  }
  // Closes the list, executes it and waits: what its fence says.
  ze_result_t Execute(ze_command_list_handle_t list);
  ze_result_t Copy(void* to, const void* from, size_t bytes);

  ze_driver_handle_t driver_ = nullptr;
  ze_device_handle_t device_ = nullptr;
  ze_context_handle_t context_ = nullptr;
  ze_command_queue_handle_t queue_ = nullptr;
  const level_zero::GraphExtension* graphs_ = nullptr;

 private:
  std::vector<std::string> switches_;
  std::vector<ze_command_list_handle_t> lists_;
  std::vector<ze_fence_handle_t> fences_;
  std::vector<ze_event_handle_t> events_;
  std::vector<ze_event_pool_handle_t> pools_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_CONFORMANCE_DRIVER_FIXTURE_H_

#include "npubank/tests/unit/software_npu/driver_fixture.h"

#include <cstdlib>

namespace npubank {
namespace {

using level_zero::SoftwareNpuStatistics;

ze_driver_handle_t FindDriver() {
  uint32_t count = 1;
  ze_driver_handle_t driver = nullptr;
  if (zeInit(0) != ZE_RESULT_SUCCESS) return nullptr;
  return zeDriverGet(&count, &driver) == ZE_RESULT_SUCCESS ? driver : nullptr;
}

void* FindExtension(const char* name) {
  void* table = nullptr;
  const ze_driver_handle_t driver = FindDriver();
  if (driver == nullptr) return nullptr;
  return zeDriverGetExtensionFunctionAddress(driver, name, &table) == ZE_RESULT_SUCCESS ? table
                                                                                        : nullptr;
}

}  // namespace

const level_zero::SoftwareNpuExtension& DriverTest::Software() {
  static const auto* const kTable = static_cast<const level_zero::SoftwareNpuExtension*>(
      FindExtension(level_zero::kSoftwareNpuExtensionName));
  return *kTable;
}

SoftwareNpuStatistics DriverTest::Statistics() {
  SoftwareNpuStatistics statistics;
  EXPECT_EQ(Software().pfnGetStatistics(&statistics), ZE_RESULT_SUCCESS);
  return statistics;
}

void DriverTest::SetUp() {
  driver_ = FindDriver();
  ASSERT_NE(driver_, nullptr) << "set ZE_ENABLE_ALT_DRIVERS to libze_software_npu.so";
  graphs_ = static_cast<const level_zero::GraphExtension*>(
      FindExtension(level_zero::kGraphExtensionName));
  ASSERT_NE(graphs_, nullptr);
  uint32_t count = 1;
  ASSERT_EQ(zeDeviceGet(driver_, &count, &device_), ZE_RESULT_SUCCESS);
  const ze_context_desc_t context_desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ASSERT_EQ(zeContextCreate(driver_, &context_desc, &context_), ZE_RESULT_SUCCESS);
  ze_command_queue_desc_t queue_desc = {};
  queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  ASSERT_EQ(zeCommandQueueCreate(context_, device_, &queue_desc, &queue_), ZE_RESULT_SUCCESS);
}

void DriverTest::TearDown() {
  if (queue_ == nullptr) return;
  Software().pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  zeCommandQueueSynchronize(queue_, kForEver);
  for (auto fence : fences_) EXPECT_EQ(zeFenceDestroy(fence), ZE_RESULT_SUCCESS);
  for (auto list : lists_) EXPECT_EQ(zeCommandListDestroy(list), ZE_RESULT_SUCCESS);
  for (auto event : events_) EXPECT_EQ(zeEventDestroy(event), ZE_RESULT_SUCCESS);
  for (auto pool : pools_) EXPECT_EQ(zeEventPoolDestroy(pool), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueDestroy(queue_), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeContextDestroy(context_), ZE_RESULT_SUCCESS);
  for (const std::string& name : switches_) unsetenv(name.c_str());
  Software().pfnReloadSwitches();
  const SoftwareNpuStatistics left = Statistics();
  EXPECT_EQ(left.live_bytes, 0u);
  EXPECT_EQ(left.live_allocations, 0u);
  EXPECT_EQ(left.live_imports, 0u);
  EXPECT_EQ(left.live_physical_memories, 0u);
  EXPECT_EQ(left.live_reservations, 0u);
  EXPECT_EQ(left.live_contexts, 0u);
  EXPECT_EQ(left.live_queues + left.live_lists + left.live_fences, 0u);
  EXPECT_EQ(left.live_event_pools + left.live_events + left.live_graphs, 0u);
}

void DriverTest::SetSwitches(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) {
    setenv(name.c_str(), value.c_str(), 1);
    switches_.push_back(name);
  }
  Software().pfnReloadSwitches();
}

ze_result_t DriverTest::TryAllocate(ze_memory_type_t type, size_t bytes, void** out,
                                    size_t alignment, uint32_t flags, const void* chain) {
  const ze_device_mem_alloc_desc_t device_desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, chain,
                                                  flags, 0};
  const ze_host_mem_alloc_desc_t host_desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, chain, flags};
  switch (type) {
    case ZE_MEMORY_TYPE_HOST:
      return zeMemAllocHost(context_, &host_desc, bytes, alignment, out);
    case ZE_MEMORY_TYPE_DEVICE:
      return zeMemAllocDevice(context_, &device_desc, bytes, alignment, device_, out);
    default:
      return zeMemAllocShared(context_, &device_desc, &host_desc, bytes, alignment, device_, out);
  }
}

uint8_t* DriverTest::Allocate(ze_memory_type_t type, size_t bytes) {
  void* pointer = nullptr;
  EXPECT_EQ(TryAllocate(type, bytes, &pointer), ZE_RESULT_SUCCESS);
  return static_cast<uint8_t*>(pointer);
}

ze_command_list_handle_t DriverTest::NewList() {
  const ze_command_list_desc_t desc = {ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_command_list_handle_t list = nullptr;
  EXPECT_EQ(zeCommandListCreate(context_, device_, &desc, &list), ZE_RESULT_SUCCESS);
  lists_.push_back(list);
  return list;
}

ze_fence_handle_t DriverTest::NewFence() {
  const ze_fence_desc_t desc = {ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  ze_fence_handle_t fence = nullptr;
  EXPECT_EQ(zeFenceCreate(queue_, &desc, &fence), ZE_RESULT_SUCCESS);
  fences_.push_back(fence);
  return fence;
}

std::vector<ze_event_handle_t> DriverTest::NewEvents(uint32_t count) {
  const ze_event_pool_desc_t pool_desc = {ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr,
                                          ZE_EVENT_POOL_FLAG_HOST_VISIBLE, count};
  ze_event_pool_handle_t pool = nullptr;
  EXPECT_EQ(zeEventPoolCreate(context_, &pool_desc, 0, nullptr, &pool), ZE_RESULT_SUCCESS);
  pools_.push_back(pool);
  std::vector<ze_event_handle_t> events(count);
  for (uint32_t i = 0; i < count; ++i) {
    const ze_event_desc_t desc = {ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, i, 0, 0};
    EXPECT_EQ(zeEventCreate(pool, &desc, &events[i]), ZE_RESULT_SUCCESS);
    events_.push_back(events[i]);
  }
  return events;
}

ze_result_t DriverTest::Execute(ze_command_list_handle_t list) {
  EXPECT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  const ze_fence_handle_t fence = NewFence();
  const ze_result_t submitted = Submit(list, fence);
  if (submitted != ZE_RESULT_SUCCESS) return submitted;
  return zeFenceHostSynchronize(fence, kForEver);
}

ze_result_t DriverTest::Copy(void* to, const void* from, size_t bytes) {
  const ze_command_list_handle_t list = NewList();
  const ze_result_t appended =
      zeCommandListAppendMemoryCopy(list, to, from, bytes, nullptr, 0, nullptr);
  return appended == ZE_RESULT_SUCCESS ? Execute(list) : appended;
}

}  // namespace npubank

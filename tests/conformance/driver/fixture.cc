#include "npubank/tests/conformance/driver/fixture.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace npubank {
namespace {

using level_zero::SoftwareNpuStatistics;

// The structure of ZE_extension_external_memmap_sysmem.
struct SystemMemory {
  uint32_t stype = 0x00020037;
  const void* next = nullptr;
  void* memory = nullptr;
  uint64_t size = 0;
};

// What the process's pages cost, each shared between those that map it.
uint64_t ProportionalBytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  uint64_t kibibytes = 0;
  while (rollup >> word)
    if (word == "Pss:") rollup >> kibibytes;
  return kibibytes * 1024;
}

struct Npu {
  ze_driver_handle_t driver = nullptr;
  ze_device_handle_t device = nullptr;
};

// The order of drivers is not fixed, and others than the NPU's may be there.
Npu FindNpu() {
  if (zeInit(0) != ZE_RESULT_SUCCESS) return {};
  uint32_t count = 0;
  if (zeDriverGet(&count, nullptr) != ZE_RESULT_SUCCESS) return {};
  std::vector<ze_driver_handle_t> drivers(count);
  if (zeDriverGet(&count, drivers.data()) != ZE_RESULT_SUCCESS) return {};
  for (ze_driver_handle_t driver : drivers) {
    uint32_t devices = 1;
    ze_device_handle_t device = nullptr;
    ze_device_properties_t properties = {};
    properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    if (zeDeviceGet(driver, &devices, &device) == ZE_RESULT_SUCCESS &&
        zeDeviceGetProperties(device, &properties) == ZE_RESULT_SUCCESS &&
        properties.type == ZE_DEVICE_TYPE_VPU) {
      return {driver, device};
    }
  }
  return {};
}

void* FindExtension(const char* name) {
  void* table = nullptr;
  const Npu npu = FindNpu();
  if (npu.driver == nullptr) return nullptr;
  const ze_result_t result = zeDriverGetExtensionFunctionAddress(npu.driver, name, &table);
  return result == ZE_RESULT_SUCCESS ? table : nullptr;
}

const level_zero::SoftwareNpuExtension* FindSoftware() {
  static const auto* const table = static_cast<const level_zero::SoftwareNpuExtension*>(
      FindExtension(level_zero::kSoftwareNpuExtensionName));
  return table;
}

}  // namespace

bool DriverTest::IsSoftwareNpu() { return FindSoftware() != nullptr; }

const level_zero::SoftwareNpuExtension& DriverTest::Software() { return *FindSoftware(); }

SoftwareNpuStatistics DriverTest::Statistics() {
  SoftwareNpuStatistics statistics;
  EXPECT_EQ(Software().pfnGetStatistics(&statistics), ZE_RESULT_SUCCESS);
  return statistics;
}

bool DriverTest::HasExtension(const std::string& name) const {
  uint32_t count = 0;
  EXPECT_EQ(zeDriverGetExtensionProperties(driver_, &count, nullptr), ZE_RESULT_SUCCESS);
  std::vector<ze_driver_extension_properties_t> extensions(count);
  EXPECT_EQ(zeDriverGetExtensionProperties(driver_, &count, extensions.data()), ZE_RESULT_SUCCESS);
  for (const auto& extension : extensions)
    if (name == extension.name) return true;
  return false;
}

uint64_t DriverTest::Allocated() const {
  level_zero::GraphMemoryQuery query;
  EXPECT_EQ(graphs_->pfnQueryContextMemory(context_, level_zero::kMemoryTypeDdr, &query),
            ZE_RESULT_SUCCESS);
  return query.allocated;
}

void DriverTest::SetUp() {
  const Npu npu = FindNpu();
  driver_ = npu.driver;
  device_ = npu.device;
  ASSERT_NE(driver_, nullptr) << "no NPU: --driver names a Level Zero driver";
  graphs_ = static_cast<const level_zero::GraphExtension*>(
      FindExtension(level_zero::kGraphExtensionName));
  ASSERT_NE(graphs_, nullptr);
  const ze_context_desc_t context_desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ASSERT_EQ(zeContextCreate(driver_, &context_desc, &context_), ZE_RESULT_SUCCESS);
  ze_command_queue_desc_t queue_desc = {};
  queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  ASSERT_EQ(zeCommandQueueCreate(context_, device_, &queue_desc, &queue_), ZE_RESULT_SUCCESS);
}

void DriverTest::TearDown() {
  if (queue_ == nullptr) return;
  if (IsSoftwareNpu()) Software().pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  zeCommandQueueSynchronize(queue_, kForever);
  for (auto fence : fences_) EXPECT_EQ(zeFenceDestroy(fence), ZE_RESULT_SUCCESS);
  for (auto list : lists_) EXPECT_EQ(zeCommandListDestroy(list), ZE_RESULT_SUCCESS);
  for (auto event : events_) EXPECT_EQ(zeEventDestroy(event), ZE_RESULT_SUCCESS);
  for (auto pool : pools_) EXPECT_EQ(zeEventPoolDestroy(pool), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueDestroy(queue_), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeContextDestroy(context_), ZE_RESULT_SUCCESS);
  if (!IsSoftwareNpu()) return;
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
  EXPECT_EQ(left.live_event_pools + left.live_events, 0u);
  EXPECT_EQ(left.live_graphs + left.live_build_logs, 0u);
}

void DriverTest::SetSwitches(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) {
    setenv(name.c_str(), value.c_str(), 1);
    switches_.push_back(name);
  }
  Software().pfnReloadSwitches();
}

ze_result_t DriverTest::ImportPages(void* memory, size_t bytes, uint32_t flags, void** out) {
  const SystemMemory desc = {.memory = memory, .size = bytes};
  return TryAllocate(ZE_MEMORY_TYPE_HOST, 1, out, 0, flags, &desc);
}

bool DriverTest::ImportsWithoutACopy(int fd, size_t bytes, int protection, uint32_t flags) {
  uint8_t* const device = Device(bytes);
  std::memset(device, 0, bytes);
  // A checker of this process may add something of its own for every byte that is read: to both.
  uint64_t grown[2] = {};
  bool worked = true;
  for (const bool import : {false, true}) {
    const uint64_t before = ProportionalBytes();
    void* const pages = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    void* out = nullptr;
    if (import) {
      worked = ImportPages(pages, bytes, flags, &out) == ZE_RESULT_SUCCESS &&
               Copy(device, out, bytes) == ZE_RESULT_SUCCESS;
    } else {
      std::memcpy(device, pages, bytes);
    }
    const uint64_t after = ProportionalBytes();
    grown[import] = after - std::min(before, after);
    if (out != nullptr) Free(out);
    munmap(pages, bytes);
  }
  Free(device);
  return worked && grown[1] < grown[0] + bytes / 4;
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

ze_command_list_handle_t DriverTest::NewWaitingList(ze_event_handle_t event) {
  const ze_command_list_handle_t list = NewList();
  EXPECT_EQ(zeCommandListAppendWaitOnEvents(list, 1, &event), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  return list;
}

ze_command_list_handle_t DriverTest::NewClosedList() {
  const ze_command_list_handle_t list = NewList();
  EXPECT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  return list;
}

void DriverTest::Forget(ze_command_list_handle_t list) {
  lists_.erase(std::find(lists_.begin(), lists_.end(), list));
}

void DriverTest::Forget(ze_fence_handle_t fence) {
  fences_.erase(std::find(fences_.begin(), fences_.end(), fence));
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
  return zeFenceHostSynchronize(fence, kForever);
}

ze_result_t DriverTest::Copy(void* to, const void* from, size_t bytes) {
  const ze_command_list_handle_t list = NewList();
  const ze_result_t appended =
      zeCommandListAppendMemoryCopy(list, to, from, bytes, nullptr, 0, nullptr);
  return appended == ZE_RESULT_SUCCESS ? Execute(list) : appended;
}

}  // namespace npubank

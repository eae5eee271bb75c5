// What driver and device say about themselves, one test per fact of a real NPU.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

class DeviceTest : public DriverTest {
 protected:
  ze_device_properties_t Properties() {
    ze_device_properties_t properties = {};
    properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    EXPECT_EQ(zeDeviceGetProperties(device_, &properties), ZE_RESULT_SUCCESS);
    return properties;
  }

  // 0: not reported.
  uint32_t VersionOf(const std::string& name) {
    for (const auto& [known, version] : ExtensionVersions())
      if (known == name) return version;
    return 0;
  }

  std::set<std::string> Extensions() {
    std::set<std::string> names;
    for (const auto& [name, version] : ExtensionVersions()) names.insert(name);
    return names;
  }

  std::map<std::string, uint32_t> ExtensionVersions() {
    uint32_t count = 0;
    EXPECT_EQ(zeDriverGetExtensionProperties(driver_, &count, nullptr), ZE_RESULT_SUCCESS);
    std::vector<ze_driver_extension_properties_t> extensions(count);
    EXPECT_EQ(zeDriverGetExtensionProperties(driver_, &count, extensions.data()),
              ZE_RESULT_SUCCESS);
    std::map<std::string, uint32_t> versions;
    for (const auto& extension : extensions) versions[extension.name] = extension.version;
    return versions;
  }
};

TEST_F(DeviceTest, IsOneIntegratedNpuWithoutSubdevices) {
  uint32_t count = 0;
  ASSERT_EQ(zeDeviceGet(driver_, &count, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(count, 1u);
  const ze_device_properties_t properties = Properties();
  EXPECT_EQ(properties.type, ZE_DEVICE_TYPE_VPU);
  EXPECT_EQ(std::string(properties.name) == "npubank software NPU", IsSoftwareNpu())
      << "the software NPU is recognisable, and nobody else is taken for it";
  EXPECT_EQ(properties.flags, uint32_t{ZE_DEVICE_PROPERTY_FLAG_INTEGRATED});
  count = 7;
  ASSERT_EQ(zeDeviceGetSubDevices(device_, &count, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(count, 0u);
}

TEST_F(DeviceTest, MaxAllocationIsTheMachinesMemoryAndNoBudget) {
  struct sysinfo info = {};
  ASSERT_EQ(sysinfo(&info), 0);
  EXPECT_EQ(Properties().maxMemAllocSize, uint64_t{info.totalram} * info.mem_unit);
}

TEST_F(DeviceTest, TheOneMemoryIsDdrOfTotalSizeZero) {
  uint32_t count = 0;
  ASSERT_EQ(zeDeviceGetMemoryProperties(device_, &count, nullptr), ZE_RESULT_SUCCESS);
  ASSERT_EQ(count, 1u);
  ze_device_memory_properties_t memory = {};
  memory.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
  ASSERT_EQ(zeDeviceGetMemoryProperties(device_, &count, &memory), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::string(memory.name), "DDR");
  EXPECT_EQ(memory.totalSize, 0u);
}

TEST_F(DeviceTest, HasOneQueueGroupForComputeAndCopy) {
  uint32_t count = 0;
  ASSERT_EQ(zeDeviceGetCommandQueueGroupProperties(device_, &count, nullptr), ZE_RESULT_SUCCESS);
  ASSERT_EQ(count, 1u);
  ze_command_queue_group_properties_t group = {};
  group.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
  ASSERT_EQ(zeDeviceGetCommandQueueGroupProperties(device_, &count, &group), ZE_RESULT_SUCCESS);
  EXPECT_EQ(group.flags, uint32_t{ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE |
                                  ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY});
  EXPECT_EQ(group.numQueues, 1u);
  EXPECT_EQ(group.maxMemoryFillPatternSize, 4u);
}

TEST_F(DeviceTest, OtherOrdinalsThanZeroAreInvalid) {
  ze_command_queue_desc_t queue_desc = {};
  queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  queue_desc.ordinal = 1;
  ze_command_queue_handle_t queue = nullptr;
  EXPECT_EQ(zeCommandQueueCreate(context_, device_, &queue_desc, &queue),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
  ze_command_list_desc_t list_desc = {};
  list_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC;
  list_desc.commandQueueGroupOrdinal = 1;
  ze_command_list_handle_t list = nullptr;
  EXPECT_EQ(zeCommandListCreate(context_, device_, &list_desc, &list),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(DeviceTest, ReportsTheGraphExtensionAndItsOlderNames) {
  const uint32_t version = VersionOf("ZE_extension_graph");
  ASSERT_GE(version, ZE_MAKE_VERSION(1, 5));
  const uint32_t newest_alias = std::min(ZE_MINOR_VERSION(version), 8u);
  for (uint32_t minor = 2; minor <= newest_alias; ++minor) {
    const std::string name = "ZE_extension_graph_1_" + std::to_string(minor);
    EXPECT_EQ(Extensions().count(name), 1u) << name;
    void* table = nullptr;
    EXPECT_EQ(zeDriverGetExtensionFunctionAddress(driver_, name.c_str(), &table),
              ZE_RESULT_SUCCESS);
    EXPECT_EQ(table, static_cast<const void*>(graphs_));
  }
}

// What a client may call is what the version says, whatever this project needs of it.
TEST_F(DeviceTest, EveryEntryOfTheGraphExtensionItClaimsIsThere) {
  const uint32_t version = VersionOf("ZE_extension_graph");
  constexpr std::pair<uint32_t, size_t> kEntriesSince[] = {{5, 19},  {6, 20},  {7, 21},  {8, 23},
                                                           {11, 25}, {12, 29}, {15, 30}, {16, 31}};
  size_t entries = 0;
  for (const auto& [minor, count] : kEntriesSince)
    if (version >= ZE_MAKE_VERSION(1, minor)) entries = count;
  const auto* const table = reinterpret_cast<void* const*>(graphs_);
  for (size_t i = 0; i < entries; ++i) EXPECT_NE(table[i], nullptr) << "entry " << i;
}

// As a loader of version 1.10 or later asks, whatever headers the driver was built with.
TEST_F(DeviceTest, InitDriversWorksWhereALoaderAsksForIt) {
  void* const library = dlopen(std::getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  struct Table {
    ze_result_t(ZE_APICALL* pfnInit)(uint32_t);
    ze_result_t(ZE_APICALL* pfnInitDrivers)(uint32_t*, ze_driver_handle_t*, void*);
    void* beyond;
  };
  using GetTable = ze_result_t(ZE_APICALL*)(uint32_t, Table*);
  const auto get_table = reinterpret_cast<GetTable>(dlsym(library, "zeGetGlobalProcAddrTable"));
  ASSERT_NE(get_table, nullptr);
  Table table = {};
  ASSERT_EQ(get_table(ZE_MAKE_VERSION(1, 10), &table), ZE_RESULT_SUCCESS);
  ASSERT_NE(table.pfnInitDrivers, nullptr);
  EXPECT_EQ(table.beyond, nullptr);
  struct {
    uint32_t stype = 0x00020021;
    const void* next = nullptr;
    uint32_t flags = 2;  // NPUs
  } desc;
  uint32_t count = 0;
  ASSERT_EQ(table.pfnInitDrivers(&count, nullptr, &desc), ZE_RESULT_SUCCESS);
  ASSERT_EQ(count, 1u);
  ze_driver_handle_t driver = nullptr;
  ASSERT_EQ(table.pfnInitDrivers(&count, &driver, &desc), ZE_RESULT_SUCCESS);
  EXPECT_NE(driver, nullptr);
  Table old = {};
  ASSERT_EQ(get_table(ZE_MAKE_VERSION(1, 4), &old), ZE_RESULT_SUCCESS);
  EXPECT_EQ(old.pfnInitDrivers, nullptr) << "a loader of 1.4 has no room for it";
}

TEST_F(DeviceTest, SystemMemoryImportIsReportedOnlyWhenItIsOn) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  EXPECT_EQ(Extensions().count("ZE_extension_external_memmap_sysmem"), 0u);
  SetSwitches({{"NPUBANK_NPU_IMPORT", "1"}});
  EXPECT_EQ(Extensions().count("ZE_extension_external_memmap_sysmem"), 1u);
  constexpr uint32_t kStandardAllocation = 0x100;
  ze_device_external_memory_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES;
  ASSERT_EQ(zeDeviceGetExternalMemoryProperties(device_, &properties), ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.memoryAllocationImportTypes,
            ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF | kStandardAllocation);
}

TEST_F(DeviceTest, UnknownExtensionsHaveNoAddress) {
  void* table = nullptr;
  EXPECT_EQ(zeDriverGetExtensionFunctionAddress(driver_, "ZE_extension_graph_9_9", &table),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(DeviceTest, DmaBufsCanBeImportedAndExported) {
  ze_device_external_memory_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES;
  ASSERT_EQ(zeDeviceGetExternalMemoryProperties(device_, &properties), ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.memoryAllocationImportTypes, uint32_t{ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF});
  EXPECT_EQ(properties.memoryAllocationExportTypes, uint32_t{ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF});
}

TEST_F(DeviceTest, WhatANpuDoesNotHaveIsUnsupported) {
  uint8_t* const memory = Device(4096);
  ze_ipc_mem_handle_t ipc = {};
  EXPECT_EQ(zeMemGetIpcHandle(context_, memory, &ipc), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  void* opened = nullptr;
  EXPECT_EQ(zeMemOpenIpcHandle(context_, device_, ipc, 0, &opened),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeMemCloseIpcHandle(context_, memory), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeContextMakeMemoryResident(context_, device_, memory, 4096),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeContextEvictMemory(context_, device_, memory, 4096),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeContextSystemBarrier(context_, device_), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  const ze_memory_free_ext_desc_t free_desc = {ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC, nullptr,
                                               ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_DEFER_FREE};
  EXPECT_EQ(zeMemFreeExt(context_, &free_desc, memory), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  const ze_context_desc_t context_desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_context_handle_t context = nullptr;
  EXPECT_EQ(zeContextCreateEx(driver_, &context_desc, 1, &device_, &context),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  Free(memory);
}

TEST_F(DeviceTest, VirtualMemoryIsUnsupportedUnlessItIsSwitchedOn) {
  uint8_t* const memory = Device(4096);
  size_t page = 0;
  EXPECT_EQ(zeVirtualMemQueryPageSize(context_, device_, 1, &page),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  void* reserved = nullptr;
  EXPECT_EQ(zeVirtualMemReserve(context_, memory, 65536, &reserved),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeVirtualMemFree(context_, memory, 65536), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeVirtualMemUnmap(context_, memory, 65536), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  ze_physical_mem_desc_t desc = {ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, nullptr, 0, 65536};
  ze_physical_mem_handle_t physical = nullptr;
  EXPECT_EQ(zePhysicalMemCreate(context_, device_, &desc, &physical),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(
      zeVirtualMemMap(context_, memory, 65536, reinterpret_cast<ze_physical_mem_handle_t>(memory),
                      0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
      ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  Free(memory);
}

TEST_F(DeviceTest, EventsAreNotSharedWithOtherProcesses) {
  NewEvents(1);
  ze_event_pool_handle_t opened = nullptr;
  EXPECT_EQ(zeEventPoolOpenIpcHandle(context_, {}, &opened), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

TEST_F(DeviceTest, ThereAreNoKernelsAndModules) {
  const uint8_t code[] = {1, 2, 3, 4};
  ze_module_desc_t desc = {};
  desc.stype = ZE_STRUCTURE_TYPE_MODULE_DESC;
  desc.format = ZE_MODULE_FORMAT_NATIVE;
  desc.inputSize = sizeof(code);
  desc.pInputModule = code;
  ze_module_handle_t module = nullptr;
  EXPECT_EQ(zeModuleCreate(context_, device_, &desc, &module, nullptr),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

TEST_F(DeviceTest, EveryLiveHandleIsCounted) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  const level_zero::SoftwareNpuStatistics before = Statistics();
  EXPECT_EQ(before.live_contexts, 1u);
  EXPECT_EQ(before.live_queues, 1u);
  NewList();
  NewFence();
  NewEvents(3);
  uint8_t* const memory = Device(1);
  Free(Host(1));
  const level_zero::SoftwareNpuStatistics after = Statistics();
  EXPECT_EQ(after.live_lists, 1u);
  EXPECT_EQ(after.live_fences, 1u);
  EXPECT_EQ(after.live_event_pools, 1u);
  EXPECT_EQ(after.live_events, 3u);
  EXPECT_EQ(after.live_allocations, 1u);
  EXPECT_EQ(after.total_allocations - before.total_allocations, 2u);
  EXPECT_EQ(after.live_bytes, 4096u);
  Free(memory);
}

TEST_F(DeviceTest, CommandsThatANpuDoesNotHaveAreUnsupported) {
  uint8_t* const memory = Device(4096);
  const ze_command_list_handle_t list = NewList();
  const size_t size = 4096;
  const void* const range = memory;
  const void* ranges[] = {range};
  EXPECT_EQ(zeCommandListAppendMemoryRangesBarrier(list, 1, &size, ranges, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeCommandListAppendMemoryPrefetch(list, memory, size),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(
      zeCommandListAppendMemAdvise(list, device_, memory, size, ZE_MEMORY_ADVICE_SET_READ_MOSTLY),
      ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  EXPECT_EQ(zeCommandListAppendMemoryCopyFromContext(list, memory, context_, memory, size, nullptr,
                                                     0, nullptr),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  Free(memory);
}

TEST_F(DeviceTest, ImmediateListsAreUnsupported) {
  ze_command_queue_desc_t desc = {};
  desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  ze_command_list_handle_t list = nullptr;
  EXPECT_EQ(zeCommandListCreateImmediate(context_, device_, &desc, &list),
            ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

TEST_F(DeviceTest, WithoutHostAccessTheDeviceIsNotIntegrated) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  EXPECT_EQ(Properties().flags, 0u);
}

TEST_F(DeviceTest, ASwitchThatIsNotUnderstoodChangesNothing) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "perhaps"},
               {"NPUBANK_NPU_PAGE_SIZE", "12345"},
               {"NPUBANK_NPU_CAPACITY", "99999999999G"}});
  EXPECT_EQ(Properties().flags, uint32_t{ZE_DEVICE_PROPERTY_FLAG_INTEGRATED});
  Free(Device(1));
}

}  // namespace
}  // namespace npubank

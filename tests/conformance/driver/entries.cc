#include "npubank/tests/conformance/driver/entries.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>

#include <cstdlib>

namespace npubank {
namespace {

using Slot = ze_result_t (*)();

void* Library() {
  static void* const library = dlopen(std::getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_LOCAL);
  return library;
}

template <class Table>
Table GetTable(const char* name) {
  Table table = {};
  const auto get =
      reinterpret_cast<ze_result_t (*)(ze_api_version_t, Table*)>(dlsym(Library(), name));
  EXPECT_NE(get, nullptr) << name;
  if (get != nullptr) {
    EXPECT_EQ(get(ZE_API_VERSION_CURRENT, &table), ZE_RESULT_SUCCESS) << name;
  }
  return table;
}

template <class... Arguments>
void AddEntry(std::vector<DriverEntry>& entries, const char* name,
              ze_result_t (*function)(Arguments...)) {
  ASSERT_NE(function, nullptr) << name;
  entries.push_back({name, [function](DriverCaller& caller) { caller.Call(function); }});
}

// Tables of which the driver has nothing: entries that look at no argument.
template <class Table>
void AddUnsupported(std::vector<DriverEntry>& entries, const char* name) {
  const auto table = GetTable<Table>(name);
  const auto* const slots = reinterpret_cast<const Slot*>(&table);
  for (size_t i = 0; i < sizeof(table) / sizeof(Slot); ++i) {
    const Slot slot = slots[i];
    ASSERT_NE(slot, nullptr) << name << " " << i;
    EXPECT_EQ(slot(), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE) << name << " " << i;
    entries.push_back({name, [slot](DriverCaller&) { slot(); }});
  }
}

decltype(ze_command_list_dditable_t::pfnAppendMemoryFill) append_fill = nullptr;
decltype(ze_command_list_dditable_t::pfnAppendMemoryCopy) append_copy = nullptr;

// Nothing, or far too much.
uint64_t SizeOf(uint8_t choice) {
  constexpr uint64_t kSizes[] = {0, SIZE_MAX, SIZE_MAX - 4095, uint64_t{1} << 40};
  return kSizes[choice % 4];
}

ze_result_t Copy(ze_command_list_handle_t list, void* to, const void* from, uint8_t size,
                 ze_event_handle_t signal, uint32_t waits, ze_event_handle_t* events) {
  return append_copy(list, to, from, SizeOf(size), signal, waits, events);
}

// The pattern is read at once, so it may not be an address that another thread frees.
ze_result_t Fill(ze_command_list_handle_t list, void* to, const uint64_t* pattern, uint8_t width,
                 uint8_t size, ze_event_handle_t signal, uint32_t waits,
                 ze_event_handle_t* events) {
  return append_fill(list, to, pattern, width, SizeOf(size), signal, waits, events);
}

void AddDevices(std::vector<DriverEntry>& entries) {
  const auto global = GetTable<ze_global_dditable_t>("zeGetGlobalProcAddrTable");
  AddEntry(entries, "zeInit", global.pfnInit);
  const auto driver = GetTable<ze_driver_dditable_t>("zeGetDriverProcAddrTable");
  AddEntry(entries, "zeDriverGet", driver.pfnGet);
  AddEntry(entries, "zeDriverGetApiVersion", driver.pfnGetApiVersion);
  AddEntry(entries, "zeDriverGetProperties", driver.pfnGetProperties);
  AddEntry(entries, "zeDriverGetIpcProperties", driver.pfnGetIpcProperties);
  AddEntry(entries, "zeDriverGetExtensionProperties", driver.pfnGetExtensionProperties);
  AddEntry(entries, "zeDriverGetExtensionFunctionAddress", driver.pfnGetExtensionFunctionAddress);
  const auto device = GetTable<ze_device_dditable_t>("zeGetDeviceProcAddrTable");
  AddEntry(entries, "zeDeviceGet", device.pfnGet);
  AddEntry(entries, "zeDeviceGetSubDevices", device.pfnGetSubDevices);
  AddEntry(entries, "zeDeviceGetProperties", device.pfnGetProperties);
  AddEntry(entries, "zeDeviceGetComputeProperties", device.pfnGetComputeProperties);
  AddEntry(entries, "zeDeviceGetModuleProperties", device.pfnGetModuleProperties);
  AddEntry(entries, "zeDeviceGetCommandQueueGroupProperties",
           device.pfnGetCommandQueueGroupProperties);
  AddEntry(entries, "zeDeviceGetMemoryProperties", device.pfnGetMemoryProperties);
  AddEntry(entries, "zeDeviceGetMemoryAccessProperties", device.pfnGetMemoryAccessProperties);
  AddEntry(entries, "zeDeviceGetCacheProperties", device.pfnGetCacheProperties);
  AddEntry(entries, "zeDeviceGetImageProperties", device.pfnGetImageProperties);
  AddEntry(entries, "zeDeviceGetExternalMemoryProperties", device.pfnGetExternalMemoryProperties);
  AddEntry(entries, "zeDeviceGetP2PProperties", device.pfnGetP2PProperties);
  AddEntry(entries, "zeDeviceCanAccessPeer", device.pfnCanAccessPeer);
  AddEntry(entries, "zeDeviceGetStatus", device.pfnGetStatus);
  AddEntry(entries, "zeDeviceGetGlobalTimestamps", device.pfnGetGlobalTimestamps);
}

void AddQueues(std::vector<DriverEntry>& entries) {
  const auto context = GetTable<ze_context_dditable_t>("zeGetContextProcAddrTable");
  AddEntry(entries, "zeContextCreate", context.pfnCreate);
  entries.push_back({"zeContextDestroy", [destroy = context.pfnDestroy](DriverCaller& caller) {
                       caller.DestroyContext(destroy);
                     }});
  AddEntry(entries, "zeContextGetStatus", context.pfnGetStatus);
  AddEntry(entries, "zeContextSystemBarrier", context.pfnSystemBarrier);
  AddEntry(entries, "zeContextMakeMemoryResident", context.pfnMakeMemoryResident);
  AddEntry(entries, "zeContextEvictMemory", context.pfnEvictMemory);
  const auto queue = GetTable<ze_command_queue_dditable_t>("zeGetCommandQueueProcAddrTable");
  AddEntry(entries, "zeCommandQueueCreate", queue.pfnCreate);
  AddEntry(entries, "zeCommandQueueDestroy", queue.pfnDestroy);
  AddEntry(entries, "zeCommandQueueExecuteCommandLists", queue.pfnExecuteCommandLists);
  AddEntry(entries, "zeCommandQueueSynchronize", queue.pfnSynchronize);
  const auto fence = GetTable<ze_fence_dditable_t>("zeGetFenceProcAddrTable");
  AddEntry(entries, "zeFenceCreate", fence.pfnCreate);
  AddEntry(entries, "zeFenceDestroy", fence.pfnDestroy);
  AddEntry(entries, "zeFenceHostSynchronize", fence.pfnHostSynchronize);
  AddEntry(entries, "zeFenceQueryStatus", fence.pfnQueryStatus);
  AddEntry(entries, "zeFenceReset", fence.pfnReset);
  const auto pool = GetTable<ze_event_pool_dditable_t>("zeGetEventPoolProcAddrTable");
  AddEntry(entries, "zeEventPoolCreate", pool.pfnCreate);
  AddEntry(entries, "zeEventPoolDestroy", pool.pfnDestroy);
  AddEntry(entries, "zeEventPoolGetIpcHandle", pool.pfnGetIpcHandle);
  AddEntry(entries, "zeEventPoolCloseIpcHandle", pool.pfnCloseIpcHandle);
  const auto event = GetTable<ze_event_dditable_t>("zeGetEventProcAddrTable");
  AddEntry(entries, "zeEventCreate", event.pfnCreate);
  AddEntry(entries, "zeEventDestroy", event.pfnDestroy);
  AddEntry(entries, "zeEventHostSignal", event.pfnHostSignal);
  AddEntry(entries, "zeEventHostSynchronize", event.pfnHostSynchronize);
  AddEntry(entries, "zeEventQueryStatus", event.pfnQueryStatus);
  AddEntry(entries, "zeEventHostReset", event.pfnHostReset);
  AddEntry(entries, "zeEventQueryKernelTimestamp", event.pfnQueryKernelTimestamp);
}

void AddLists(std::vector<DriverEntry>& entries) {
  const auto list = GetTable<ze_command_list_dditable_t>("zeGetCommandListProcAddrTable");
  AddEntry(entries, "zeCommandListCreate", list.pfnCreate);
  AddEntry(entries, "zeCommandListCreateImmediate", list.pfnCreateImmediate);
  AddEntry(entries, "zeCommandListDestroy", list.pfnDestroy);
  AddEntry(entries, "zeCommandListClose", list.pfnClose);
  AddEntry(entries, "zeCommandListReset", list.pfnReset);
  AddEntry(entries, "zeCommandListAppendWriteGlobalTimestamp", list.pfnAppendWriteGlobalTimestamp);
  AddEntry(entries, "zeCommandListAppendBarrier", list.pfnAppendBarrier);
  append_copy = list.pfnAppendMemoryCopy;
  AddEntry(entries, "zeCommandListAppendMemoryCopy", &Copy);
  AddEntry(entries, "zeCommandListAppendMemoryCopyRegion", list.pfnAppendMemoryCopyRegion);
  append_fill = list.pfnAppendMemoryFill;
  AddEntry(entries, "zeCommandListAppendMemoryFill", &Fill);
  AddEntry(entries, "zeCommandListAppendMemoryPrefetch", list.pfnAppendMemoryPrefetch);
  AddEntry(entries, "zeCommandListAppendMemAdvise", list.pfnAppendMemAdvise);
  AddEntry(entries, "zeCommandListAppendSignalEvent", list.pfnAppendSignalEvent);
  AddEntry(entries, "zeCommandListAppendWaitOnEvents", list.pfnAppendWaitOnEvents);
  AddEntry(entries, "zeCommandListAppendEventReset", list.pfnAppendEventReset);
  AddEntry(entries, "zeCommandListAppendMemoryRangesBarrier", list.pfnAppendMemoryRangesBarrier);
  AddEntry(entries, "zeCommandListAppendMemoryCopyFromContext",
           list.pfnAppendMemoryCopyFromContext);
}

void AddMemory(std::vector<DriverEntry>& entries) {
  const auto memory = GetTable<ze_mem_dditable_t>("zeGetMemProcAddrTable");
  AddEntry(entries, "zeMemAllocShared", memory.pfnAllocShared);
  AddEntry(entries, "zeMemAllocDevice", memory.pfnAllocDevice);
  AddEntry(entries, "zeMemAllocHost", memory.pfnAllocHost);
  AddEntry(entries, "zeMemFree", memory.pfnFree);
  AddEntry(entries, "zeMemGetAllocProperties", memory.pfnGetAllocProperties);
  AddEntry(entries, "zeMemGetAddressRange", memory.pfnGetAddressRange);
  AddEntry(entries, "zeMemGetIpcHandle", memory.pfnGetIpcHandle);
  AddEntry(entries, "zeMemOpenIpcHandle", memory.pfnOpenIpcHandle);
  AddEntry(entries, "zeMemCloseIpcHandle", memory.pfnCloseIpcHandle);
  AddEntry(entries, "zeMemFreeExt", memory.pfnFreeExt);
  const auto physical = GetTable<ze_physical_mem_dditable_t>("zeGetPhysicalMemProcAddrTable");
  AddEntry(entries, "zePhysicalMemCreate", physical.pfnCreate);
  AddEntry(entries, "zePhysicalMemDestroy", physical.pfnDestroy);
  const auto addresses = GetTable<ze_virtual_mem_dditable_t>("zeGetVirtualMemProcAddrTable");
  AddEntry(entries, "zeVirtualMemReserve", addresses.pfnReserve);
  AddEntry(entries, "zeVirtualMemFree", addresses.pfnFree);
  AddEntry(entries, "zeVirtualMemQueryPageSize", addresses.pfnQueryPageSize);
  AddEntry(entries, "zeVirtualMemMap", addresses.pfnMap);
  AddEntry(entries, "zeVirtualMemUnmap", addresses.pfnUnmap);
  AddEntry(entries, "zeVirtualMemSetAccessAttribute", addresses.pfnSetAccessAttribute);
  AddEntry(entries, "zeVirtualMemGetAccessAttribute", addresses.pfnGetAccessAttribute);
}

void AddGraphs(std::vector<DriverEntry>& entries, const level_zero::GraphExtension& graphs) {
  using Tell = ze_result_t (*)(level_zero::GraphHandle, uint32_t, uint64_t*);
  AddEntry(entries, "pfnCreate", graphs.pfnCreate);
  AddEntry(entries, "pfnDestroy", graphs.pfnDestroy);
  AddEntry(entries, "pfnGetProperties", graphs.pfnGetProperties);
  AddEntry(entries, "pfnGetArgumentProperties", graphs.pfnGetArgumentProperties);
  AddEntry(entries, "pfnSetArgumentValue", graphs.pfnSetArgumentValue);
  AddEntry(entries, "pfnAppendGraphInitialize", graphs.pfnAppendGraphInitialize);
  AddEntry(entries, "pfnAppendGraphExecute", graphs.pfnAppendGraphExecute);
  AddEntry(entries, "pfnGetNativeBinary", graphs.pfnGetNativeBinary);
  AddEntry(entries, "pfnDeviceGetGraphProperties", graphs.pfnDeviceGetGraphProperties);
  using Ask = ze_result_t (*)(level_zero::GraphHandle, uint64_t*);
  for (void* ask : {reinterpret_cast<void*>(graphs.pfnGetProperties2),
                    reinterpret_cast<void*>(graphs.pfnGetProperties3)})
    AddEntry(entries, "later graph properties", reinterpret_cast<Ask>(ask));
  for (void* tell : {graphs.pfnGraphGetArgumentMetadata,
                     reinterpret_cast<void*>(graphs.pfnGetArgumentProperties2),
                     reinterpret_cast<void*>(graphs.pfnGetArgumentProperties3)}) {
    AddEntry(entries, "later properties", reinterpret_cast<Tell>(tell));
  }
  using Create = decltype(graphs.pfnCreate);
  for (void* create :
       {graphs.pfnQueryNetworkCreate, graphs.pfnCreate2, graphs.pfnQueryNetworkCreate2}) {
    AddEntry(entries, "later creations", reinterpret_cast<Create>(create));
  }
  AddEntry(
      entries, "pfnQueryNetworkDestroy",
      reinterpret_cast<ze_result_t (*)(level_zero::GraphHandle)>(graphs.pfnQueryNetworkDestroy));
  AddEntry(entries, "pfnQueryNetworkGetSupportedLayers",
           reinterpret_cast<ze_result_t (*)(level_zero::GraphHandle, size_t*, char*)>(
               graphs.pfnQueryNetworkGetSupportedLayers));
  AddEntry(entries, "pfnBuildLogGetString",
           reinterpret_cast<ze_result_t (*)(level_zero::GraphHandle, uint32_t*, char*)>(
               graphs.pfnBuildLogGetString));
  AddEntry(entries, "pfnQueryContextMemory", graphs.pfnQueryContextMemory);
  AddEntry(entries, "pfnDeviceGetGraphProperties2",
           reinterpret_cast<ze_result_t (*)(ze_device_handle_t, uint64_t*)>(
               graphs.pfnDeviceGetGraphProperties2));
  AddEntry(entries, "pfnGetNativeBinary2",
           reinterpret_cast<ze_result_t (*)(level_zero::GraphHandle, size_t*, const uint8_t**)>(
               graphs.pfnGetNativeBinary2));
  AddEntry(entries, "pfnGraphInitialize",
           reinterpret_cast<ze_result_t (*)(level_zero::GraphHandle)>(graphs.pfnGraphInitialize));
  AddEntry(entries, "pfnCompilerGetSupportedOptions",
           reinterpret_cast<ze_result_t (*)(ze_device_handle_t, uint32_t, size_t*, char*)>(
               graphs.pfnCompilerGetSupportedOptions));
  AddEntry(entries, "pfnCompilerIsOptionSupported",
           reinterpret_cast<ze_result_t (*)(ze_device_handle_t, uint32_t, const char*, const char*)>(
               graphs.pfnCompilerIsOptionSupported));
  AddEntry(entries, "pfnCreate3",
           reinterpret_cast<ze_result_t (*)(ze_context_handle_t, ze_device_handle_t,
                                            const level_zero::GraphDesc*, level_zero::GraphHandle*,
                                            level_zero::GraphBuildLogHandle*)>(graphs.pfnCreate3));
  AddEntry(entries, "pfnBuildLogGetString2",
           reinterpret_cast<ze_result_t (*)(level_zero::GraphBuildLogHandle, uint32_t*, char*)>(
               graphs.pfnBuildLogGetString2));
  AddEntry(entries, "pfnBuildLogDestroy",
           reinterpret_cast<ze_result_t (*)(level_zero::GraphBuildLogHandle)>(
               graphs.pfnBuildLogDestroy));
}

void AddWhatIsNotThere(std::vector<DriverEntry>& entries) {
  AddUnsupported<ze_image_dditable_t>(entries, "zeGetImageProcAddrTable");
  AddUnsupported<ze_module_dditable_t>(entries, "zeGetModuleProcAddrTable");
  AddUnsupported<ze_kernel_dditable_t>(entries, "zeGetKernelProcAddrTable");
  AddUnsupported<ze_sampler_dditable_t>(entries, "zeGetSamplerProcAddrTable");
  AddUnsupported<zet_device_dditable_t>(entries, "zetGetDeviceProcAddrTable");
  AddUnsupported<zet_metric_dditable_t>(entries, "zetGetMetricProcAddrTable");
  AddUnsupported<zet_debug_dditable_t>(entries, "zetGetDebugProcAddrTable");
  AddUnsupported<zes_device_dditable_t>(entries, "zesGetDeviceProcAddrTable");
  AddUnsupported<zes_memory_dditable_t>(entries, "zesGetMemoryProcAddrTable");
  AddUnsupported<zes_power_dditable_t>(entries, "zesGetPowerProcAddrTable");
}

}  // namespace

std::vector<DriverEntry> ExportedEntries(const level_zero::GraphExtension* graphs) {
  std::vector<DriverEntry> entries;
  AddDevices(entries);
  AddQueues(entries);
  AddLists(entries);
  AddMemory(entries);
  AddGraphs(entries, *graphs);
  AddWhatIsNotThere(entries);
  return entries;
}

}  // namespace npubank

// The driver's exported symbols: one zeGet*ProcAddrTable for each table of the Level Zero loader.
//
// Every entry of every table is filled: first with a function that returns UNSUPPORTED_FEATURE,
// then with what the driver has. A loader older than the headers this was built with gets only
// entries that its table has room for: those of version 1.4, which hold all that the driver
// implements.
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/software_npu/command_list.h"
#include "runtime/software_npu/context.h"
#include "runtime/software_npu/device.h"
#include "runtime/software_npu/entry.h"
#include "runtime/software_npu/event.h"
#include "runtime/software_npu/extensions.h"
#include "runtime/software_npu/fence.h"
#include "runtime/software_npu/memory.h"
#include "runtime/software_npu/queue.h"
#include "runtime/software_npu/virtual_memory.h"

namespace npubank::software_npu {
namespace {

using Slot = void (*)();

ze_result_t ZE_APICALL Unsupported() { return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE; }

// Fills a table with Unsupported. It ignores its arguments, and on every platform of Level Zero the
// caller clears them away, so one function stands for all signatures.
template <class Table>
ze_result_t Begin(ze_api_version_t version, Table* table, size_t entries_of_1_4) {
  if (table == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (ZE_MAJOR_VERSION(version) != ZE_MAJOR_VERSION(ZE_API_VERSION_CURRENT)) {
    return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
  }
  static_assert(sizeof(Table) % sizeof(Slot) == 0);
  const bool whole = version >= ZE_API_VERSION_CURRENT;
  auto* const slots = reinterpret_cast<Slot*>(table);
  std::fill_n(slots, whole ? sizeof(Table) / sizeof(Slot) : entries_of_1_4,
              reinterpret_cast<Slot>(&Unsupported));
  return ZE_RESULT_SUCCESS;
}

// zeInitDrivers, where the headers know it.
template <class Table>
void SetInitDrivers(ze_api_version_t version, Table* table) {
  if constexpr (requires { table->pfnInitDrivers; }) {
    if (version < ZE_API_VERSION_CURRENT) return;
    table->pfnInitDrivers =
        reinterpret_cast<decltype(table->pfnInitDrivers)>(kEntry<"zeInitDrivers", &InitDrivers>);
  }
}

void SetDriver(ze_driver_dditable_t* table) {
  table->pfnGet = kSureEntry<"zeDriverGet", &DriverGet>;
  table->pfnGetApiVersion = kSureEntry<"zeDriverGetApiVersion", &DriverGetApiVersion>;
  table->pfnGetProperties = kSureEntry<"zeDriverGetProperties", &DriverGetProperties>;
  table->pfnGetIpcProperties = kSureEntry<"zeDriverGetIpcProperties", &DriverGetIpcProperties>;
  table->pfnGetExtensionProperties =
      kSureEntry<"zeDriverGetExtensionProperties", &DriverGetExtensionProperties>;
  table->pfnGetExtensionFunctionAddress =
      kSureEntry<"zeDriverGetExtensionFunctionAddress", &DriverGetExtensionFunctionAddress>;
}

void SetDevice(ze_device_dditable_t* table) {
  table->pfnGet = kSureEntry<"zeDeviceGet", &DeviceGet>;
  table->pfnGetSubDevices = kSureEntry<"zeDeviceGetSubDevices", &DeviceGetSubDevices>;
  table->pfnGetProperties = kSureEntry<"zeDeviceGetProperties", &DeviceGetProperties>;
  table->pfnGetComputeProperties =
      kSureEntry<"zeDeviceGetComputeProperties", &DeviceGetComputeProperties>;
  table->pfnGetCommandQueueGroupProperties =
      kSureEntry<"zeDeviceGetCommandQueueGroupProperties", &DeviceGetCommandQueueGroupProperties>;
  table->pfnGetMemoryProperties =
      kSureEntry<"zeDeviceGetMemoryProperties", &DeviceGetMemoryProperties>;
  table->pfnGetMemoryAccessProperties =
      kSureEntry<"zeDeviceGetMemoryAccessProperties", &DeviceGetMemoryAccessProperties>;
  table->pfnGetExternalMemoryProperties =
      kSureEntry<"zeDeviceGetExternalMemoryProperties", &DeviceGetExternalMemoryProperties>;
  table->pfnCanAccessPeer = kSureEntry<"zeDeviceCanAccessPeer", &DeviceCanAccessPeer>;
  table->pfnGetStatus = kSureEntry<"zeDeviceGetStatus", &DeviceGetStatus>;
  table->pfnGetGlobalTimestamps =
      kSureEntry<"zeDeviceGetGlobalTimestamps", &DeviceGetGlobalTimestamps>;
}

void SetContext(ze_context_dditable_t* table) {
  table->pfnCreate = kEntry<"zeContextCreate", &ContextCreate>;
  table->pfnDestroy = kSureEntry<"zeContextDestroy", &ContextDestroy>;
  table->pfnGetStatus = kSureEntry<"zeContextGetStatus", &ContextGetStatus>;
}

void SetQueue(ze_command_queue_dditable_t* table) {
  table->pfnCreate = kEntry<"zeCommandQueueCreate", &CommandQueueCreate>;
  table->pfnDestroy = kSureEntry<"zeCommandQueueDestroy", &CommandQueueDestroy>;
  table->pfnExecuteCommandLists =
      kEntry<"zeCommandQueueExecuteCommandLists", &CommandQueueExecuteCommandLists>;
  table->pfnSynchronize = kEntry<"zeCommandQueueSynchronize", &CommandQueueSynchronize>;
}

void SetList(ze_command_list_dditable_t* table) {
  table->pfnCreate = kEntry<"zeCommandListCreate", &CommandListCreate>;
  table->pfnDestroy = kSureEntry<"zeCommandListDestroy", &CommandListDestroy>;
  table->pfnClose = kEntry<"zeCommandListClose", &CommandListClose>;
  table->pfnReset = kEntry<"zeCommandListReset", &CommandListReset>;
  table->pfnAppendWriteGlobalTimestamp =
      kEntry<"zeCommandListAppendWriteGlobalTimestamp", &CommandListAppendWriteGlobalTimestamp>;
  table->pfnAppendBarrier = kEntry<"zeCommandListAppendBarrier", &CommandListAppendBarrier>;
  table->pfnAppendMemoryCopy =
      kEntry<"zeCommandListAppendMemoryCopy", &CommandListAppendMemoryCopy>;
  table->pfnAppendMemoryFill =
      kEntry<"zeCommandListAppendMemoryFill", &CommandListAppendMemoryFill>;
  table->pfnAppendSignalEvent =
      kEntry<"zeCommandListAppendSignalEvent", &CommandListAppendSignalEvent>;
  table->pfnAppendWaitOnEvents =
      kEntry<"zeCommandListAppendWaitOnEvents", &CommandListAppendWaitOnEvents>;
  table->pfnAppendEventReset =
      kEntry<"zeCommandListAppendEventReset", &CommandListAppendEventReset>;
}

void SetFence(ze_fence_dditable_t* table) {
  table->pfnCreate = kEntry<"zeFenceCreate", &FenceCreate>;
  table->pfnDestroy = kSureEntry<"zeFenceDestroy", &FenceDestroy>;
  table->pfnHostSynchronize = kEntry<"zeFenceHostSynchronize", &FenceHostSynchronize>;
  table->pfnQueryStatus = kSureEntry<"zeFenceQueryStatus", &FenceQueryStatus>;
  table->pfnReset = kEntry<"zeFenceReset", &FenceReset>;
}

void SetEventPool(ze_event_pool_dditable_t* table) {
  table->pfnCreate = kEntry<"zeEventPoolCreate", &EventPoolCreate>;
  table->pfnDestroy = kSureEntry<"zeEventPoolDestroy", &EventPoolDestroy>;
}

void SetEvent(ze_event_dditable_t* table) {
  table->pfnCreate = kEntry<"zeEventCreate", &EventCreate>;
  table->pfnDestroy = kSureEntry<"zeEventDestroy", &EventDestroy>;
  table->pfnHostSignal = kEntry<"zeEventHostSignal", &EventHostSignal>;
  table->pfnHostSynchronize = kEntry<"zeEventHostSynchronize", &EventHostSynchronize>;
  table->pfnQueryStatus = kSureEntry<"zeEventQueryStatus", &EventQueryStatus>;
  table->pfnHostReset = kEntry<"zeEventHostReset", &EventHostReset>;
}

void SetMem(ze_mem_dditable_t* table) {
  table->pfnAllocShared = kEntry<"zeMemAllocShared", &MemAllocShared>;
  table->pfnAllocDevice = kEntry<"zeMemAllocDevice", &MemAllocDevice>;
  table->pfnAllocHost = kEntry<"zeMemAllocHost", &MemAllocHost>;
  table->pfnFree = kSureEntry<"zeMemFree", &MemFree>;
  table->pfnGetAllocProperties = kSureEntry<"zeMemGetAllocProperties", &MemGetAllocProperties>;
  table->pfnGetAddressRange = kSureEntry<"zeMemGetAddressRange", &MemGetAddressRange>;
}

void SetPhysicalMem(ze_physical_mem_dditable_t* table) {
  table->pfnCreate = kEntry<"zePhysicalMemCreate", &PhysicalMemCreate>;
  table->pfnDestroy = kSureEntry<"zePhysicalMemDestroy", &PhysicalMemDestroy>;
}

void SetVirtualMem(ze_virtual_mem_dditable_t* table) {
  table->pfnReserve = kEntry<"zeVirtualMemReserve", &VirtualMemReserve>;
  table->pfnFree = kSureEntry<"zeVirtualMemFree", &VirtualMemFree>;
  table->pfnQueryPageSize = kSureEntry<"zeVirtualMemQueryPageSize", &VirtualMemQueryPageSize>;
  table->pfnMap = kEntry<"zeVirtualMemMap", &VirtualMemMap>;
  table->pfnUnmap = kSureEntry<"zeVirtualMemUnmap", &VirtualMemUnmap>;
  table->pfnSetAccessAttribute =
      kEntry<"zeVirtualMemSetAccessAttribute", &VirtualMemSetAccessAttribute>;
  table->pfnGetAccessAttribute =
      kSureEntry<"zeVirtualMemGetAccessAttribute", &VirtualMemGetAccessAttribute>;
}

}  // namespace
}  // namespace npubank::software_npu

// Names and signatures are the loader's.
using namespace npubank::software_npu;  // NOLINT(google-build-using-namespace)

#define NPUBANK_EXPORT extern "C" __attribute__((visibility("default")))

#define NPUBANK_TABLE(name, type, entries, set)                                              \
  NPUBANK_EXPORT ze_result_t ZE_APICALL zeGet##name##ProcAddrTable(ze_api_version_t version, \
                                                                   type* table) {            \
    const ze_result_t result = Begin(version, table, entries);                               \
    if (result == ZE_RESULT_SUCCESS) set(table);                                             \
    return result;                                                                           \
  }

NPUBANK_EXPORT ze_result_t ZE_APICALL zeGetGlobalProcAddrTable(ze_api_version_t version,
                                                               ze_global_dditable_t* table) {
  const ze_result_t result = Begin(version, table, 1);
  if (result != ZE_RESULT_SUCCESS) return result;
  table->pfnInit = kEntry<"zeInit", &Init>;
  SetInitDrivers(version, table);
  return ZE_RESULT_SUCCESS;
}

// Tables of what an NPU does not have: nothing beyond Unsupported is set.
#define NPUBANK_NOTHING(table) (void)(table)

NPUBANK_TABLE(Driver, ze_driver_dditable_t, 6, SetDriver)
NPUBANK_TABLE(Device, ze_device_dditable_t, 18, SetDevice)
NPUBANK_TABLE(DeviceExp, ze_device_exp_dditable_t, 1, NPUBANK_NOTHING)
NPUBANK_TABLE(Context, ze_context_dditable_t, 9, SetContext)
NPUBANK_TABLE(CommandQueue, ze_command_queue_dditable_t, 4, SetQueue)
NPUBANK_TABLE(CommandList, ze_command_list_dditable_t, 28, SetList)
NPUBANK_TABLE(Image, ze_image_dditable_t, 4, NPUBANK_NOTHING)
NPUBANK_TABLE(ImageExp, ze_image_exp_dditable_t, 2, NPUBANK_NOTHING)
NPUBANK_TABLE(Fence, ze_fence_dditable_t, 5, SetFence)
NPUBANK_TABLE(EventPool, ze_event_pool_dditable_t, 5, SetEventPool)
NPUBANK_TABLE(Event, ze_event_dditable_t, 7, SetEvent)
NPUBANK_TABLE(EventExp, ze_event_exp_dditable_t, 1, NPUBANK_NOTHING)
NPUBANK_TABLE(Module, ze_module_dditable_t, 9, NPUBANK_NOTHING)
NPUBANK_TABLE(ModuleBuildLog, ze_module_build_log_dditable_t, 2, NPUBANK_NOTHING)
NPUBANK_TABLE(Kernel, ze_kernel_dditable_t, 12, NPUBANK_NOTHING)
NPUBANK_TABLE(KernelExp, ze_kernel_exp_dditable_t, 2, NPUBANK_NOTHING)
NPUBANK_TABLE(Sampler, ze_sampler_dditable_t, 2, NPUBANK_NOTHING)
NPUBANK_TABLE(PhysicalMem, ze_physical_mem_dditable_t, 2, SetPhysicalMem)
NPUBANK_TABLE(Mem, ze_mem_dditable_t, 10, SetMem)
NPUBANK_TABLE(VirtualMem, ze_virtual_mem_dditable_t, 7, SetVirtualMem)
NPUBANK_TABLE(FabricVertexExp, ze_fabric_vertex_exp_dditable_t, 4, NPUBANK_NOTHING)
NPUBANK_TABLE(FabricEdgeExp, ze_fabric_edge_exp_dditable_t, 3, NPUBANK_NOTHING)

// The driver's exported symbols: one zeGet*ProcAddrTable for each table of the Level Zero loader.
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/ddi_table.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/entry.h"
#include "npubank/runtime/software_npu/extensions.h"
#include "npubank/runtime/software_npu/memory/memory.h"
#include "npubank/runtime/software_npu/memory/virtual_memory.h"
#include "npubank/runtime/software_npu/queues/command_list.h"
#include "npubank/runtime/software_npu/queues/event.h"
#include "npubank/runtime/software_npu/queues/fence.h"
#include "npubank/runtime/software_npu/queues/queue.h"

namespace npubank::software_npu {
namespace {

// zeInitDrivers came with version 1.10, as the second entry: a loader of that version has room for it,
// whatever headers this was built with.
void SetInitDrivers(ze_api_version_t version, ze_global_dditable_t* table) {
  using Slot = void (*)();
  constexpr uint32_t kSince = ZE_MAKE_VERSION(1, 10);
  if (static_cast<uint32_t>(version) < kSince) return;
  reinterpret_cast<Slot*>(table)[1] = reinterpret_cast<Slot>(kEntry<"zeInitDrivers", &InitDrivers>);
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
  table->pfnAppendMemoryCopyRegion =
      kEntry<"zeCommandListAppendMemoryCopyRegion", &CommandListAppendMemoryCopyRegion>;
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
using npubank::software_npu::BeginTable;
using npubank::software_npu::Init;
using npubank::software_npu::kEntry;
using npubank::software_npu::SetInitDrivers;

NPUBANK_EXPORT ze_result_t ZE_APICALL zeGetGlobalProcAddrTable(ze_api_version_t version,
                                                               ze_global_dditable_t* table) {
  const ze_result_t result = BeginTable(version, table, 1);
  if (result != ZE_RESULT_SUCCESS) return result;
  table->pfnInit = kEntry<"zeInit", &Init>;
  SetInitDrivers(version, table);
  return ZE_RESULT_SUCCESS;
}

NPUBANK_TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t, 6, SetDriver)
NPUBANK_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t, 18, SetDevice)
NPUBANK_TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t, 9, SetContext)
NPUBANK_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t, 4, SetQueue)
NPUBANK_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t, 28, SetList)
NPUBANK_TABLE(zeGetImageProcAddrTable, ze_image_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t, 5, SetFence)
NPUBANK_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t, 5, SetEventPool)
NPUBANK_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t, 7, SetEvent)
NPUBANK_TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t, 9, SetNothing)
NPUBANK_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t, 12, SetNothing)
NPUBANK_TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t, 2, SetPhysicalMem)
NPUBANK_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t, 10, SetMem)
NPUBANK_TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t, 7, SetVirtualMem)
NPUBANK_TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t, 3, SetNothing)

#include "npubank/runtime/software_npu/device.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "npubank/runtime/software_npu/controls/faults.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {
namespace {

constexpr char kDeviceName[] = "npubank software NPU";
constexpr char kMemoryName[] = "DDR";
constexpr uint32_t kIntel = 0x8086;
constexpr uint32_t kDriverVersion = 1;
constexpr uint32_t kInitDriversNpu = 1u << 1;
constexpr uint32_t kStandardAllocation = 0x100;  // userptr memory, as an import type
constexpr uint8_t kUuid[] = {'n', 'p', 'u', 'b', 'a', 'n', 'k', '-',
                             's', 'o', 'f', 't', 0,   0,   0,   1};

// What the two handles point at. The address is all that counts.
struct Driver {
  uint64_t word = 0;
} driver_object;
struct Device {
  uint64_t word = 0;
} device_object;

std::atomic<bool> initialized{false};
// The first to initialise wanted GPUs only: no NPU for this process.
std::atomic<bool> poisoned{false};
std::atomic<bool> lost{false};
std::atomic<uint64_t> submissions{0};

ze_driver_handle_t TheDriver() { return reinterpret_cast<ze_driver_handle_t>(&driver_object); }
ze_device_handle_t TheDevice() { return reinterpret_cast<ze_device_handle_t>(&device_object); }

// The protocol of counted lists with one element: 0 asks how many, and no more than asked are
// given.
template <class Fill>
ze_result_t GiveOne(uint32_t* count, bool wanted, Fill fill) {
  if (count == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (*count == 0) {
    *count = 1;
    return ZE_RESULT_SUCCESS;
  }
  *count = 1;
  if (wanted) fill();
  return ZE_RESULT_SUCCESS;
}

uint64_t MachineMemory() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : 0;
}

// Clears what follows a structure's two header members, and keeps those.
template <class T>
void Clear(T* structure) {
  T cleared = {};
  cleared.stype = structure->stype;
  cleared.pNext = structure->pNext;
  *structure = cleared;
}

template <class T>
ze_result_t CheckQuery(ze_device_handle_t handle, T* structure) {
  if (!IsDevice(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (structure == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Clear(structure);
  return ZE_RESULT_SUCCESS;
}

}  // namespace

bool IsDriver(ze_driver_handle_t handle) { return handle == TheDriver(); }
bool IsDevice(ze_device_handle_t handle) { return handle == TheDevice(); }

bool IsDeviceUnwrapped(ze_device_handle_t handle) {
  return IsDevice(handle) || (handle != nullptr && FirstWordOf(handle) == TheDevice());
}

bool DeviceIsLost() { return lost; }

void CountSubmission() {
  const uint64_t lost_at = GetSwitches()->lost_at_submission;
  if (++submissions >= lost_at && lost_at != 0) lost = true;
}

ze_result_t Init(ze_init_flags_t flags) {
  if (flags & ~uint32_t{ZE_INIT_FLAG_GPU_ONLY | ZE_INIT_FLAG_VPU_ONLY}) {
    return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  }
  if (flags == ZE_INIT_FLAG_GPU_ONLY) poisoned = !initialized;
  if (poisoned || flags == ZE_INIT_FLAG_GPU_ONLY) return ZE_RESULT_ERROR_UNINITIALIZED;
  if (initialized.exchange(true)) return ZE_RESULT_SUCCESS;
  const std::string& fail = GetSwitches()->fail;
  if (!fail.empty() && !Faults::Get().Configure(fail)) {
    WarnOnce("NPUBANK_NPU_FAIL='" + fail + "' is not understood and ignored");
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t InitDrivers(uint32_t* count, ze_driver_handle_t* drivers, void* desc) {
  struct Desc {
    uint32_t stype;
    const void* next;
    uint32_t flags;
  };
  if (desc == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if ((static_cast<const Desc*>(desc)->flags & kInitDriversNpu) == 0) {
    return ZE_RESULT_ERROR_UNINITIALIZED;
  }
  if (const ze_result_t result = Init(0); result != ZE_RESULT_SUCCESS) return result;
  return DriverGet(count, drivers);
}

ze_result_t DriverGet(uint32_t* count, ze_driver_handle_t* drivers) {
  if (!initialized) return ZE_RESULT_ERROR_UNINITIALIZED;
  return GiveOne(count, drivers != nullptr, [&] { drivers[0] = TheDriver(); });
}

ze_result_t DriverGetApiVersion(ze_driver_handle_t handle, ze_api_version_t* version) {
  if (!IsDriver(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (version == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *version = ZE_API_VERSION_CURRENT;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DriverGetProperties(ze_driver_handle_t handle, ze_driver_properties_t* properties) {
  if (!IsDriver(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Clear(properties);
  std::memcpy(properties->uuid.id, kUuid, sizeof(kUuid));
  properties->driverVersion = kDriverVersion;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DriverGetIpcProperties(ze_driver_handle_t handle,
                                   ze_driver_ipc_properties_t* properties) {
  if (!IsDriver(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Clear(properties);  // neither memory nor events can be shared this way
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGet(ze_driver_handle_t driver, uint32_t* count, ze_device_handle_t* devices) {
  if (!IsDriver(driver)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return GiveOne(count, devices != nullptr, [&] { devices[0] = TheDevice(); });
}

ze_result_t DeviceGetSubDevices(ze_device_handle_t handle, uint32_t* count, ze_device_handle_t*) {
  if (!IsDevice(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (count == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *count = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGetProperties(ze_device_handle_t handle, ze_device_properties_t* properties) {
  if (const ze_result_t result = CheckQuery(handle, properties); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  properties->type = ZE_DEVICE_TYPE_VPU;
  properties->vendorId = kIntel;
  // Memory that the host cannot touch belongs to a device of its own.
  if (GetSwitches()->host_access) properties->flags = ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
  properties->maxMemAllocSize = MachineMemory();
  properties->maxHardwareContexts = 64;
  properties->timerResolution = 1;
  properties->timestampValidBits = 64;
  properties->kernelTimestampValidBits = 64;
  std::memcpy(properties->uuid.id, kUuid, sizeof(kUuid));
  std::snprintf(properties->name, sizeof(properties->name), "%s", kDeviceName);
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGetComputeProperties(ze_device_handle_t handle,
                                       ze_device_compute_properties_t* properties) {
  if (const ze_result_t result = CheckQuery(handle, properties); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  properties->maxTotalGroupSize = 1;
  properties->maxGroupSizeX = properties->maxGroupSizeY = properties->maxGroupSizeZ = 1;
  properties->maxGroupCountX = properties->maxGroupCountY = properties->maxGroupCountZ = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGetCommandQueueGroupProperties(ze_device_handle_t handle, uint32_t* count,
                                                 ze_command_queue_group_properties_t* properties) {
  if (!IsDevice(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return GiveOne(count, properties != nullptr, [&] {
    Clear(properties);
    properties->flags =
        ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
    properties->maxMemoryFillPatternSize = 4;
    properties->numQueues = 1;
  });
}

ze_result_t DeviceGetMemoryProperties(ze_device_handle_t handle, uint32_t* count,
                                      ze_device_memory_properties_t* properties) {
  if (!IsDevice(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return GiveOne(count, properties != nullptr, [&] {
    Clear(properties);  // the total size stays 0: it is not a budget
    std::snprintf(properties->name, sizeof(properties->name), "%s", kMemoryName);
  });
}

ze_result_t DeviceGetMemoryAccessProperties(ze_device_handle_t handle,
                                            ze_device_memory_access_properties_t* properties) {
  if (const ze_result_t result = CheckQuery(handle, properties); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  properties->hostAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
  properties->deviceAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
  properties->sharedSingleDeviceAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGetExternalMemoryProperties(ze_device_handle_t handle,
                                              ze_device_external_memory_properties_t* properties) {
  if (const ze_result_t result = CheckQuery(handle, properties); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  properties->memoryAllocationImportTypes = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
  if (GetSwitches()->import_system_memory) {
    properties->memoryAllocationImportTypes |= kStandardAllocation;
  }
  properties->memoryAllocationExportTypes = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceCanAccessPeer(ze_device_handle_t handle, ze_device_handle_t peer,
                                ze_bool_t* value) {
  if (!IsDevice(handle) || !IsDevice(peer)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (value == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *value = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGetStatus(ze_device_handle_t handle) {
  if (!IsDevice(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return DeviceIsLost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

ze_result_t DeviceGetGlobalTimestamps(ze_device_handle_t handle, uint64_t* host, uint64_t* device) {
  if (!IsDevice(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (host == nullptr || device == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  *host = *device =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu

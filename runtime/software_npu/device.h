// Device: the one driver and the one device, and what they say about themselves.
//
// The answers are those of Intel's NPU driver, but for the name and where switches add something.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_DEVICE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_DEVICE_H_

#include <level_zero/ze_api.h>

#include <cstdint>

namespace npubank::software_npu {

bool IsDriver(ze_driver_handle_t handle);
bool IsDevice(ze_device_handle_t handle);
// IsDevice, also for handles that came past the loader (see handles.h).
bool IsDeviceUnwrapped(ze_device_handle_t handle);

// Once lost, always lost: submissions and waits fail from then on.
bool DeviceIsLost();
// Counts a submission; loses the device when the switch says that it is this one.
void CountSubmission();

ze_result_t Init(ze_init_flags_t flags);
// zeInitDrivers of newer loaders: `desc` is {u32 stype, void* pNext, u32 flags}.
ze_result_t InitDrivers(uint32_t* count, ze_driver_handle_t* drivers, void* desc);

ze_result_t DriverGet(uint32_t* count, ze_driver_handle_t* drivers);
ze_result_t DriverGetApiVersion(ze_driver_handle_t handle, ze_api_version_t* version);
ze_result_t DriverGetProperties(ze_driver_handle_t handle, ze_driver_properties_t* properties);
ze_result_t DriverGetIpcProperties(ze_driver_handle_t handle,
                                   ze_driver_ipc_properties_t* properties);

ze_result_t DeviceGet(ze_driver_handle_t driver, uint32_t* count, ze_device_handle_t* devices);
ze_result_t DeviceGetSubDevices(ze_device_handle_t handle, uint32_t* count,
                                ze_device_handle_t* devices);
ze_result_t DeviceGetProperties(ze_device_handle_t handle, ze_device_properties_t* properties);
ze_result_t DeviceGetComputeProperties(ze_device_handle_t handle,
                                       ze_device_compute_properties_t* properties);
ze_result_t DeviceGetCommandQueueGroupProperties(ze_device_handle_t handle, uint32_t* count,
                                                 ze_command_queue_group_properties_t* properties);
ze_result_t DeviceGetMemoryProperties(ze_device_handle_t handle, uint32_t* count,
                                      ze_device_memory_properties_t* properties);
ze_result_t DeviceGetMemoryAccessProperties(ze_device_handle_t handle,
                                            ze_device_memory_access_properties_t* properties);
ze_result_t DeviceGetExternalMemoryProperties(ze_device_handle_t handle,
                                              ze_device_external_memory_properties_t* properties);
ze_result_t DeviceCanAccessPeer(ze_device_handle_t handle, ze_device_handle_t peer,
                                ze_bool_t* value);
ze_result_t DeviceGetStatus(ze_device_handle_t handle);
ze_result_t DeviceGetGlobalTimestamps(ze_device_handle_t handle, uint64_t* host, uint64_t* device);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_DEVICE_H_

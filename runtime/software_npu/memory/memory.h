// Memory: allocating, freeing and asking about host, device and shared memory.
//
// Every allocation is backed by whole pages, aligned to 4 KiB whatever was asked, and seen by the
// host, unless NPUBANK_NPU_HOST_ACCESS=0 hides device memory: then a touch by the host faults, and
// the driver works through a second mapping. What was asked for is what counts: pointers past it are
// unknown. A refusal is always OUT_OF_DEVICE_MEMORY.
// Allocations with an export descriptor are buffers that can be exported (dma_buf.h), each time as a
// descriptor of its own, and imported here or in another process, whole, whatever size is asked. An
// import is a mapping of its own, freed for itself, and is not exported again.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_MEMORY_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_MEMORY_H_

#include <level_zero/ze_api.h>

#include <cstddef>

namespace npubank::software_npu {

ze_result_t MemAllocHost(ze_context_handle_t handle, const ze_host_mem_alloc_desc_t* desc,
                         size_t size, size_t alignment, void** out);
ze_result_t MemAllocDevice(ze_context_handle_t handle, const ze_device_mem_alloc_desc_t* desc,
                           size_t size, size_t alignment, ze_device_handle_t device, void** out);
ze_result_t MemAllocShared(ze_context_handle_t handle,
                           const ze_device_mem_alloc_desc_t* device_desc,
                           const ze_host_mem_alloc_desc_t* host_desc, size_t size, size_t alignment,
                           ze_device_handle_t device, void** out);
ze_result_t MemFree(ze_context_handle_t handle, void* pointer);
// Never writes `device`.
ze_result_t MemGetAllocProperties(ze_context_handle_t handle, const void* pointer,
                                  ze_memory_allocation_properties_t* properties,
                                  ze_device_handle_t* device);
ze_result_t MemGetAddressRange(ze_context_handle_t handle, const void* pointer, void** base,
                               size_t* size);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_MEMORY_H_

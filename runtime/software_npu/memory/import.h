// Import: host memory that the device uses where it is (ZE_extension_external_memmap_sysmem).
//
//   SystemMemoryDesc memory = {kStructureSystemMemory, nullptr, pointer, bytes};
//   ze_host_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, &memory,
//                                    ZE_HOST_MEM_ALLOC_FLAG_BIAS_WRITE_COMBINED};   // read-only
//   zeMemAllocHost(context, &desc, bytes, 0, &same_pointer);
//
// Off unless NPUBANK_NPU_IMPORT=1. Pointer and size are widened to whole pages of 4 KiB.
// What can be imported: anonymous memory, private or shared, and files in memory, read-write or
// read-only; mappings of other files, shared or private, writable or not, read-only.
// Errors: UNSUPPORTED_FEATURE when off; INVALID_ARGUMENT for a page that is imported or allocated
// already; OUT_OF_DEVICE_MEMORY for what a kernel refuses to pin: memory that is not there, memory
// that may not be written without the read-only flag, shared mappings of files on a real file
// system with write access.
// Shared pages are mapped a second time, and never copied, so they outlive an early munmap by the
// host and an unlink of their file, as pinned pages do. Private ones are used where they are: when
// the host has unmapped them, jobs that need them fail. A file that shrinks takes its pages along
// (base/files/lost_pages.h): jobs that read them fail, and so does every later one of that import. Until an
// import is freed its addresses must hold nothing else.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_IMPORT_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_IMPORT_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "npubank/runtime/software_npu/context.h"

namespace npubank::software_npu {

inline constexpr uint32_t kStructureSystemMemory = 0x00020037;

struct SystemMemoryDesc {
  uint32_t stype = kStructureSystemMemory;
  const void* pNext = nullptr;
  void* pSystemMemory = nullptr;
  uint64_t size = 0;
};

ze_result_t ImportSystemMemory(const std::shared_ptr<Context>& context,
                               const SystemMemoryDesc& memory, bool read_only, void** out);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_IMPORT_H_

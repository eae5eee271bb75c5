// The software NPU's own extension: what a test asks it that no real driver answers.
//
//   void* table = nullptr;
//   zeDriverGetExtensionFunctionAddress(driver, kSoftwareNpuExtensionName, &table);
//   SoftwareNpuStatistics statistics;
//   static_cast<SoftwareNpuExtension*>(table)->pfnGetStatistics(&statistics);
//
// The counts are the driver's own, kept apart from everything the bank believes: the independent
// witness.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_SOFTWARE_NPU_EXTENSION_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_SOFTWARE_NPU_EXTENSION_H_

#include <level_zero/ze_api.h>

#include <cstdint>

namespace npubank::level_zero {

inline constexpr char kSoftwareNpuExtensionName[] = "ZE_extension_software_npu";

struct SoftwareNpuStatistics {
  uint64_t live_bytes = 0;  // pages taken now, those of freed memory that a list refers to included
  uint64_t peak_bytes = 0;  // the most since start or the last reset
  uint64_t live_allocations = 0;
  uint64_t total_allocations = 0;
  uint64_t live_imports = 0;  // of system memory, and of buffers that were exported
  uint64_t imported_bytes = 0;
  uint64_t copied_bytes = 0;  // moved by copy commands
  uint64_t live_contexts = 0;
  uint64_t live_queues = 0;
  uint64_t live_lists = 0;
  uint64_t live_fences = 0;
  uint64_t live_event_pools = 0;
  uint64_t live_events = 0;
  uint64_t live_graphs = 0;
  uint64_t live_build_logs = 0;
  uint64_t live_physical_memories = 0;
  uint64_t live_reservations = 0;
  // What the queries of all contexts come to: bytes as asked for and not freed, imports, and the
  // driver's own command buffers and event pools, which are `driver_bytes` of them.
  uint64_t counted_bytes = 0;
  uint64_t driver_bytes = 0;
};

struct SoftwareNpuExtension {
  ze_result_t(ZE_APICALL* pfnGetStatistics)(SoftwareNpuStatistics*);
  ze_result_t(ZE_APICALL* pfnResetPeak)();
  // From now on the n-th call (1 is the next) of the entry point with this name fails with `result`:
  // once, or forever. "zeMemAllocDevice" is such a name; "" stands for any that can fail. n = 0
  // clears all faults.
  ze_result_t(ZE_APICALL* pfnFailCall)(const char* entry_point, uint64_t n, uint32_t forever,
                                       ze_result_t result);
  // Calls of that entry point since start or the last pfnFailCall ("" counts all that can fail).
  ze_result_t(ZE_APICALL* pfnCountCalls)(const char* entry_point, uint64_t* count);
  // Reads the switches (runtime/software_npu/README.md) from the environment again. What is
  // allocated stays as it is; the faults of NPUBANK_NPU_FAIL are read at zeInit only.
  ze_result_t(ZE_APICALL* pfnReloadSwitches)();
  // What graph arguments' addresses must be multiples of: NPUBANK_NPU_ARGUMENT_ALIGNMENT.
  ze_result_t(ZE_APICALL* pfnGetArgumentAlignment)(uint64_t* alignment);
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_SOFTWARE_NPU_EXTENSION_H_

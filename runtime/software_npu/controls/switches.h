// Switches: what the environment makes of the software NPU. README.md has the table of all names.
//
//   if (GetSwitches()->virtual_memory) ...
//
// Defaults are the behaviour of the real driver. Read at zeInit, and again when a test asks for it
// (SoftwareNpuExtension::pfnReloadSwitches); what exists by then stays as it was made.
// A malformed value is as if it were not set, and is said on stderr.
// Threads: any. The answer is a snapshot; it does not change under its holder.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_SWITCHES_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_SWITCHES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace npubank::software_npu {

struct Switches {
  uint64_t capacity = 0;                         // bytes; set to the machine's memory by default
  uint64_t address_range = uint64_t{128} << 30;  // bytes, of all that a context maps
  uint64_t page_size = 4096;                     // bytes; allocations are rounded up to it
  uint64_t tile_size = 65536;                    // bytes; the granularity of virtual memory
  uint64_t argument_alignment = 64;              // of graph arguments, bytes
  bool virtual_memory = false;
  bool import_system_memory = false;
  bool host_access = true;                  // of device memory
  uint64_t threads = 0;                     // of the kernels; 0: one per core
  std::chrono::microseconds copy_delay{0};  // before each copy command
  uint64_t lost_at_submission = 0;          // the device is gone from then on; 0: never
  std::string fail;                         // faults, for Faults::Configure
};

std::shared_ptr<const Switches> GetSwitches();
void ReloadSwitches();

// "4096", "64K", "2G" (powers of 1024); nullopt for anything else and for what overflows.
std::optional<uint64_t> ParseBytes(absl::string_view text);

// Says `message` on stderr, once per process for the same message.
void WarnOnce(absl::string_view message);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_SWITCHES_H_

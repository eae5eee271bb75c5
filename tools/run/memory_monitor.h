// MemoryMonitor: the most memory this process had while the monitor lived, its own and files'.
//
//   MemoryMonitor monitor;
//   Load();
//   monitor.Peak().anonymous_bytes;
//
// A thread samples RssAnon and RssFile in /proc/self/status every two milliseconds, since Linux
// keeps a high-water mark only for all resident memory together. Shorter spikes can be missed; where
// the system has no thread to give, so is all that happens between the monitor's start and Peak.
#ifndef NPUBANK_TOOLS_RUN_MEMORY_MONITOR_H_
#define NPUBANK_TOOLS_RUN_MEMORY_MONITOR_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace npubank {

// Resident memory of this process; 0 where /proc does not say.
struct ProcessMemory {
  uint64_t anonymous_bytes = 0;    // of its own
  uint64_t file_backed_bytes = 0;  // pages of mapped files, which the system can take back
};
ProcessMemory ProcessMemoryNow();

class MemoryMonitor {
 public:
  MemoryMonitor();
  ~MemoryMonitor();
  // The most of each, not necessarily at the same moment.
  ProcessMemory Peak();

 private:
  void Sample();
  std::atomic<uint64_t> peak_anonymous_{0};
  std::atomic<uint64_t> peak_file_backed_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_MEMORY_MONITOR_H_

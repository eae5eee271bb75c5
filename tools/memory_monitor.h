// MemoryMonitor: the most anonymous memory this process had while the monitor lived.
//
//   MemoryMonitor monitor;
//   Load();
//   monitor.PeakAnonymousBytes();
//
// A thread samples RssAnon in /proc/self/status every two milliseconds, since Linux keeps a
// high-water mark only for all resident memory together, where mapped files count too. Shorter
// spikes can be missed.
#ifndef NPUBANK_TOOLS_MEMORY_MONITOR_H_
#define NPUBANK_TOOLS_MEMORY_MONITOR_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace npubank {

// Anonymous memory of this process now; 0 where /proc does not say.
uint64_t AnonymousBytes();

class MemoryMonitor {
 public:
  MemoryMonitor();
  ~MemoryMonitor();
  uint64_t PeakAnonymousBytes();

 private:
  void Sample();
  std::atomic<uint64_t> peak_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_MEMORY_MONITOR_H_

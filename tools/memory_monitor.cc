#include "tools/memory_monitor.h"

#include <chrono>
#include <fstream>
#include <string>

namespace npubank {

uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    uint64_t kibibytes = 0;
    if (key == "RssAnon:" && status >> kibibytes) return kibibytes * 1024;
    std::getline(status, key);
  }
  return 0;
}

MemoryMonitor::MemoryMonitor() {
  Sample();
  thread_ = std::thread([this] {
    while (!stop_.load(std::memory_order_relaxed)) {
      Sample();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
}

MemoryMonitor::~MemoryMonitor() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void MemoryMonitor::Sample() {
  const uint64_t now = AnonymousBytes();
  uint64_t seen = peak_.load(std::memory_order_relaxed);
  while (now > seen && !peak_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

uint64_t MemoryMonitor::PeakAnonymousBytes() {
  Sample();
  return peak_.load(std::memory_order_relaxed);
}

}  // namespace npubank

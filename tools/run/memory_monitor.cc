#include "npubank/tools/run/memory_monitor.h"

#include <chrono>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/thread.h"

namespace npubank {

namespace {

void RaiseTo(std::atomic<uint64_t>& peak, uint64_t now) {
  uint64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

}  // namespace

ProcessMemory ProcessMemoryNow() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  std::string key;
  uint64_t kibibytes = 0;
  while (status >> key) {
    if (key == "RssAnon:" && status >> kibibytes) memory.anonymous_bytes = kibibytes * 1024;
    if (key == "RssFile:" && status >> kibibytes) memory.file_backed_bytes = kibibytes * 1024;
    std::getline(status, key);
  }
  return memory;
}

MemoryMonitor::MemoryMonitor() {
  Sample();
  absl::StatusOr<std::thread> sampler = StartThread([this] {
    while (!stop_.load(std::memory_order_relaxed)) {
      Sample();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  if (sampler.ok()) thread_ = *std::move(sampler);
}

MemoryMonitor::~MemoryMonitor() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void MemoryMonitor::Sample() {
  const ProcessMemory now = ProcessMemoryNow();
  RaiseTo(peak_anonymous_, now.anonymous_bytes);
  RaiseTo(peak_file_backed_, now.file_backed_bytes);
}

ProcessMemory MemoryMonitor::Peak() {
  Sample();
  return {.anonymous_bytes = peak_anonymous_.load(std::memory_order_relaxed),
          .file_backed_bytes = peak_file_backed_.load(std::memory_order_relaxed)};
}

}  // namespace npubank

#include "npubank/runtime/memory/books.h"

#include <algorithm>

namespace npubank {

void Books::Charge(uint64_t reserved, uint64_t imported) {
  MutexLock lock(mutex_);
  usage_.live_bytes += reserved;
  usage_.peak_bytes = std::max(usage_.peak_bytes, usage_.live_bytes);
  usage_.imported_bytes += imported;
  ++usage_.live_allocations;
}

uint64_t Books::Discharge(uint64_t reserved, uint64_t imported) {
  MutexLock lock(mutex_);
  usage_.live_bytes -= reserved;
  usage_.imported_bytes -= imported;
  return --usage_.live_allocations;
}

void Books::Hold(uint64_t bytes, uint64_t asked) {
  MutexLock lock(mutex_);
  usage_.held_bytes += bytes;
  usage_.peak_held_bytes = std::max(usage_.peak_held_bytes, usage_.held_bytes);
  usage_.asked_bytes += asked;
}

void Books::LetGo(uint64_t bytes, uint64_t asked) {
  MutexLock lock(mutex_);
  usage_.held_bytes -= bytes;
  usage_.asked_bytes -= asked;
}

void Books::Pin(uint64_t bytes) {
  MutexLock lock(mutex_);
  usage_.pinned_bytes += bytes;
}

void Books::Unpin(uint64_t bytes) {
  MutexLock lock(mutex_);
  usage_.pinned_bytes -= bytes;
}

DeviceUsage Books::usage() const {
  MutexLock lock(mutex_);
  return usage_;
}

}  // namespace npubank

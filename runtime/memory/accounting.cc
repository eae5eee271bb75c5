#include "npubank/runtime/memory/accounting.h"

#include <algorithm>

namespace npubank {

void Accounting::Charge(uint64_t reserved, uint64_t imported) {
  MutexLock lock(mutex_);
  usage_.live_bytes += reserved;
  usage_.peak_bytes = std::max(usage_.peak_bytes, usage_.live_bytes);
  usage_.imported_bytes += imported;
  ++usage_.live_allocations;
}

uint64_t Accounting::Discharge(uint64_t reserved, uint64_t imported) {
  MutexLock lock(mutex_);
  usage_.live_bytes -= reserved;
  usage_.imported_bytes -= imported;
  return --usage_.live_allocations;
}

void Accounting::Hold(uint64_t bytes, uint64_t asked) {
  MutexLock lock(mutex_);
  usage_.held_bytes += bytes;
  usage_.peak_held_bytes = std::max(usage_.peak_held_bytes, usage_.held_bytes);
  usage_.asked_bytes += asked;
}

void Accounting::Release(uint64_t bytes, uint64_t asked) {
  MutexLock lock(mutex_);
  usage_.held_bytes -= bytes;
  usage_.asked_bytes -= asked;
}

void Accounting::Pin(uint64_t bytes) {
  MutexLock lock(mutex_);
  usage_.pinned_bytes += bytes;
}

void Accounting::Unpin(uint64_t bytes) {
  MutexLock lock(mutex_);
  usage_.pinned_bytes -= bytes;
}

DeviceUsage Accounting::usage() const {
  MutexLock lock(mutex_);
  return usage_;
}

}  // namespace npubank

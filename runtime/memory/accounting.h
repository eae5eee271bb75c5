// Accounting: what an NpuMemory believes it holds, shared by everything that holds some of it.
//
//   accounting->Hold(bytes, asked); // taken from the driver
//   accounting->Charge(reserved);   // given to a tensor
//
// Live bytes are what tensors cost; held bytes are what the driver gave for them: live, and what is
// free inside slabs and tiles, and the staging ring. Threads: any.
#ifndef NPUBANK_RUNTIME_MEMORY_ACCOUNTING_H_
#define NPUBANK_RUNTIME_MEMORY_ACCOUNTING_H_

#include <cstdint>

#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

class Accounting {
 public:
  // A tensor that costs `reserved` bytes, or none and is `imported` bytes of a file.
  void Charge(uint64_t reserved, uint64_t imported = 0);
  // Takes it off again; how many tensors are left.
  uint64_t Discharge(uint64_t reserved, uint64_t imported = 0);
  // Memory of the driver: in its pages, and as it was asked for.
  void Hold(uint64_t bytes, uint64_t asked);
  void Release(uint64_t bytes, uint64_t asked);
  // Pages of files that the driver imported.
  void Pin(uint64_t bytes);
  void Unpin(uint64_t bytes);

  DeviceUsage usage() const;

 private:
  mutable Mutex mutex_;
  DeviceUsage usage_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_ACCOUNTING_H_

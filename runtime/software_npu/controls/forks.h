// Forks: what a child of fork() finds of the driver.
//
//   KeepAcrossForks(mutex_);                      // a mutex that lives as long as the process
//   const uint64_t born_ = ForkGeneration();
//   if (born_ != ForkGeneration()) ...            // made by a parent of this process
//
// The threads of the driver are not in the child, so what was under way never ends there, and a lock
// that one of them held would never be free. Kept mutexes are taken before a fork and free after it
// on both sides; whatever else a child inherited it must not lock. Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_FORKS_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_FORKS_H_

#include <cstdint>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::software_npu {

// Another number in each child.
uint64_t ForkGeneration();

// No two kept mutexes may be held at a time.
void KeepAcrossForks(Mutex& mutex);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_FORKS_H_

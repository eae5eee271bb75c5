#include "npubank/runtime/software_npu/controls/forks.h"

#include <pthread.h>

#include <atomic>
#include <vector>

namespace npubank::software_npu {
namespace {

struct Kept {
  Mutex mutex;
  std::vector<Mutex*> mutexes ABSL_GUARDED_BY(mutex);
};

std::atomic<uint64_t> generation{0};

Kept& GetKept();

void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  GetKept().mutex.Lock();
  for (Mutex* mutex : GetKept().mutexes) mutex->Lock();
}

void AfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (Mutex* mutex : GetKept().mutexes) mutex->Unlock();
  GetKept().mutex.Unlock();
}

void InChild() {
  ++generation;
  AfterFork();
}

Kept& GetKept() {
  static Kept* const kept = [] {
    pthread_atfork(&BeforeFork, &AfterFork, &InChild);
    return new Kept;
  }();
  return *kept;
}

}  // namespace

uint64_t ForkGeneration() { return generation; }

void KeepAcrossForks(Mutex& mutex) {
  Kept& kept = GetKept();
  MutexLock lock(kept.mutex);
  kept.mutexes.push_back(&mutex);
}

}  // namespace npubank::software_npu

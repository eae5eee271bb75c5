// WorkerPool: the cores of the software NPU.
//
//   WorkerPool::Get().ForEach(strips, [&](int64_t strip) { ... });
//
// ForEach runs every piece once, on the calling thread and on helpers, and returns when all are
// done. One loop at a time has the helpers; another thread's loop meanwhile runs alone.
// NPUBANK_NPU_THREADS threads, the caller included; by default one per core.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_WORKER_POOL_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_WORKER_POOL_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::software_npu {

class WorkerPool {
 public:
  static WorkerPool& Get();

  int threads() const { return helpers_ + 1; }
  void ForEach(int64_t pieces, absl::FunctionRef<void(int64_t)> body);

 private:
  using Body = absl::FunctionRef<void(int64_t)>;

  explicit WorkerPool(int helpers);
  void Help();
  // Runs pieces of the loop until none is left.
  void RunPieces(Body body, int64_t pieces);
  // Waits, spinning at first, for a loop later than `seen`. Returns its number.
  uint64_t AwaitLoop(uint64_t seen);

  int helpers_ = 0;  // does not change once it is made
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> loop_{0};  // numbers loops, so that helpers see a new one
  std::atomic<int64_t> next_{0};
  Mutex mutex_;
  CondVar changed_;
  const Body* body_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: no loop to join
  int64_t pieces_ ABSL_GUARDED_BY(mutex_) = 0;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;  // helpers at work in it
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_WORKER_POOL_H_

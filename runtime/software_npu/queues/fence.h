// Fence: tells the host that a submission has ended, and how.
//
// As on the real driver: a fence that was never submitted is NOT_READY at once, whatever the
// timeout; one that is submitted again without zeFenceReset reports the end of the first
// submission. Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_FENCE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_FENCE_H_

#include <level_zero/ze_api.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/queues/deadline.h"

namespace npubank::software_npu {

class Queue;
struct Failure;

class Fence {
 public:
  using Handle = ze_fence_handle_t;
  static constexpr HandleKind kHandleKind = HandleKind::kFence;
  static constexpr bool kUsableAfterFork = false;

  Fence(std::shared_ptr<Queue> queue, bool signaled);
  virtual ~Fence();

  ChildOf<Queue>& queue() { return queue_; }

  void Submitted();
  // `failure` is null after a submission that succeeded; it is held until a reset.
  void Completed(ze_result_t result, std::shared_ptr<const Failure> failure);
  void Reset();
  bool in_flight() const;

  ze_result_t Query() const;
  ze_result_t HostSynchronize(Deadline deadline);

 private:
  ChildOf<Queue> queue_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool signaled_ ABSL_GUARDED_BY(mutex_);
  ze_result_t result_ ABSL_GUARDED_BY(mutex_) = ZE_RESULT_SUCCESS;
  std::shared_ptr<const Failure> failure_ ABSL_GUARDED_BY(mutex_);
};

ze_result_t FenceCreate(ze_command_queue_handle_t handle, const ze_fence_desc_t* desc,
                        ze_fence_handle_t* out);
// HANDLE_OBJECT_IN_USE while a submission will still signal it.
ze_result_t FenceDestroy(ze_fence_handle_t handle);
ze_result_t FenceHostSynchronize(ze_fence_handle_t handle, uint64_t timeout);
ze_result_t FenceQueryStatus(ze_fence_handle_t handle);
ze_result_t FenceReset(ze_fence_handle_t handle);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_FENCE_H_

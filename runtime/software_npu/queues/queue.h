// Queue: executes command lists on a thread of its own, in order of submission.
//
//   not a closed list                      UNINITIALIZED
//   a list in flight                       waits for it up to 2 s, then UNKNOWN
//   a job that waits for events over 2 s   killed: DEVICE_LOST from its fence and from Synchronize
// Destroying a queue finishes its work first; one with live fences is HANDLE_OBJECT_IN_USE.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_QUEUE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_QUEUE_H_

#include <level_zero/ze_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/queues/command_list.h"
#include "npubank/runtime/software_npu/queues/deadline.h"
#include "npubank/runtime/software_npu/queues/fence.h"

namespace npubank::software_npu {

class Queue {
 public:
  using Handle = ze_command_queue_handle_t;

  explicit Queue(std::shared_ptr<Context> context);
  virtual ~Queue();

  ChildOf<Context>& context() { return context_; }

  // Takes lists that are in flight (CommandList::Begin); `fence` may be null.
  void Submit(std::vector<std::shared_ptr<CommandList>> lists, std::shared_ptr<Fence> fence);
  // SUCCESS, NOT_READY at the deadline, or what the first failed job since the last call came to.
  ze_result_t Synchronize(Deadline deadline);
  // Finishes what is submitted and ends the thread.
  void Stop();

  std::atomic<uint64_t> children{0};

 private:
  struct Job {
    std::vector<std::shared_ptr<CommandList>> lists;
    std::shared_ptr<Fence> fence;
  };

  void Work();
  static ze_result_t Run(const Job& job);

  ChildOf<Context> context_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t unfinished_ ABSL_GUARDED_BY(mutex_) = 0;
  ze_result_t failure_ ABSL_GUARDED_BY(mutex_) = ZE_RESULT_SUCCESS;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

ze_result_t CommandQueueCreate(ze_context_handle_t handle, ze_device_handle_t device,
                               const ze_command_queue_desc_t* desc, ze_command_queue_handle_t* out);
ze_result_t CommandQueueDestroy(ze_command_queue_handle_t handle);
ze_result_t CommandQueueExecuteCommandLists(ze_command_queue_handle_t handle, uint32_t count,
                                            ze_command_list_handle_t* list_handles,
                                            ze_fence_handle_t fence_handle);
ze_result_t CommandQueueSynchronize(ze_command_queue_handle_t handle, uint64_t timeout);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_QUEUE_H_

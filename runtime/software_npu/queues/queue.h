// Queue: executes command lists on a thread of its own, in order of submission.
//
//   not a closed list                      UNINITIALIZED, and no list of that call is submitted
//   a list in flight                       waits for it up to 2 s, then UNKNOWN
//   a job that waits for events over 2 s   killed: DEVICE_LOST from its fence and from Synchronize
// Lists of one Execute are jobs of their own, submitted one after the other: the same list twice in
// one call, and {a, b} beside {b, a}, work. Those before one that times out run.
// After a failed job Synchronize is DEVICE_LOST as long as its fence holds the failure (until it is
// reset or destroyed) or its list does (until it is executed again, reset or destroyed), and once in
// any case. A queue of MODE_SYNCHRONOUS returns from Execute when the work is done, with its result.
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
  static constexpr HandleKind kHandleKind = HandleKind::kQueue;
  static constexpr bool kUsableAfterFork = false;

  Queue(std::shared_ptr<Context> context, bool synchronous);
  virtual ~Queue();

  ChildOf<Context>& context() { return context_; }
  bool synchronous() const { return synchronous_; }

  // What one Execute submitted, list by list.
  struct Submission {
    explicit Submission(std::shared_ptr<Fence> signaled) : fence(std::move(signaled)) {}
    const std::shared_ptr<Fence> fence;                  // or null; completed by the last job
    std::atomic<ze_result_t> result{ZE_RESULT_SUCCESS};  // of the first job that failed
    std::shared_ptr<const Failure> failure;              // written and read by the queue's thread
  };

  // Takes a list that is in flight (CommandList::Begin). Returns the job's number.
  uint64_t Submit(std::shared_ptr<CommandList> list, std::shared_ptr<Submission> submission,
                  bool last);
  // Until the job with this number is done.
  void Await(uint64_t job);
  // SUCCESS, NOT_READY at the deadline, or what a failed job came to.
  ze_result_t Synchronize(Deadline deadline);
  // Finishes what is submitted and ends the thread.
  void Stop();

  std::atomic<uint64_t> children{0};

 private:
  struct Job {
    std::shared_ptr<CommandList> list;
    std::shared_ptr<Submission> submission;
    bool last = false;
  };

  void Work();
  static ze_result_t Run(const CommandList& list);
  // Executes the job and tells its list and its fence. Null: it succeeded.
  static std::shared_ptr<const Failure> Finish(Job job);

  ChildOf<Context> context_;
  const bool synchronous_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t submitted_ ABSL_GUARDED_BY(mutex_) = 0;  // jobs
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;   // jobs, in the order of submission
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;     // since the last Synchronize
  std::vector<std::weak_ptr<const Failure>> failures_ ABSL_GUARDED_BY(mutex_);
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

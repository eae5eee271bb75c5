#include "npubank/runtime/software_npu/queues/queue.h"

#include <algorithm>
#include <new>

#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {

Queue::Queue(std::shared_ptr<Context> context, bool synchronous)
    : context_(std::move(context)), synchronous_(synchronous), thread_([this] { Work(); }) {}

Queue::~Queue() { Stop(); }

uint64_t Queue::Submit(std::shared_ptr<CommandList> list, std::shared_ptr<Submission> submission,
                       bool last) {
  if (last && submission->fence != nullptr) submission->fence->Submitted();
  MutexLock lock(mutex_);
  jobs_.push_back({std::move(list), std::move(submission), last});
  changed_.NotifyAll();
  return ++submitted_;
}

void Queue::Await(uint64_t job) {
  MutexLock lock(mutex_);
  while (finished_ < job) changed_.Wait(mutex_);
}

ze_result_t Queue::Synchronize(Deadline deadline) {
  MutexLock lock(mutex_);
  const uint64_t job = submitted_;
  while (finished_ < job) {
    if (!changed_.WaitUntil(mutex_, deadline) && finished_ < job) return ZE_RESULT_NOT_READY;
  }
  const auto gone = [](const auto& failure) { return failure.expired(); };
  failures_.erase(std::remove_if(failures_.begin(), failures_.end(), gone), failures_.end());
  const bool failed = std::exchange(failed_, false) || !failures_.empty();
  return failed ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

void Queue::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

ze_result_t Queue::Run(const CommandList& list) {
  if (DeviceIsLost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  try {
    return list.Run();
  } catch (const std::bad_alloc&) {
    return ZE_RESULT_ERROR_DEVICE_LOST;  // the host has no memory for the job: it is gone
  }
}

std::shared_ptr<const Failure> Queue::Finish(Job job) {
  const ze_result_t result = Run(*job.list);
  std::shared_ptr<const Failure> failure;
  Submission& submission = *job.submission;
  if (result != ZE_RESULT_SUCCESS) {
    failure = std::make_shared<Failure>();
    if (submission.result == ZE_RESULT_SUCCESS) submission.result = result;
    submission.failure = failure;
  }
  job.list->End(failure);
  job.list.reset();
  if (job.last && submission.fence != nullptr) {
    submission.fence->Completed(submission.result, submission.failure);
  }
  return failure;
}

void Queue::Work() {
  while (true) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) changed_.Wait(mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    const std::shared_ptr<const Failure> failure = Finish(std::move(job));
    MutexLock lock(mutex_);
    ++finished_;
    if (failure != nullptr) {
      failed_ = true;
      failures_.push_back(failure);
    }
    changed_.NotifyAll();
  }
}

namespace {

// Submits the lists, each when it is no longer in flight; `job` is the last one's number.
ze_result_t SubmitEach(Queue& queue, const std::vector<std::shared_ptr<CommandList>>& lists,
                       const std::shared_ptr<Queue::Submission>& submission, uint64_t* job) {
  for (const std::shared_ptr<CommandList>& list : lists) {
    const ze_result_t result = list->Begin(JobDeadline());
    if (result != ZE_RESULT_SUCCESS) return result;
    *job = queue.Submit(list, submission, &list == &lists.back());
  }
  return ZE_RESULT_SUCCESS;
}

}  // namespace

ze_result_t CommandQueueCreate(ze_context_handle_t handle, ze_device_handle_t device,
                               const ze_command_queue_desc_t* desc,
                               ze_command_queue_handle_t* out) {
  std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr || !IsDevice(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->ordinal != 0 || desc->index != 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *out = Live<Queue>().Add(
      std::make_shared<Queue>(std::move(context), desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS));
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandQueueDestroy(ze_command_queue_handle_t handle) {
  if (Queue* const inherited = Live<Queue>().Disown(handle)) {
    inherited->context().Leave();
    return ZE_RESULT_SUCCESS;
  }
  const std::shared_ptr<Queue> queue = Live<Queue>().Find(handle);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (queue->children != 0) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  if (Live<Queue>().Remove(handle) == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  queue->Stop();
  queue->context().Leave();
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandQueueExecuteCommandLists(ze_command_queue_handle_t handle, uint32_t count,
                                            ze_command_list_handle_t* list_handles,
                                            ze_fence_handle_t fence_handle) {
  const std::shared_ptr<Queue> queue = Live<Queue>().Find(handle);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (list_handles == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (count == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  std::shared_ptr<Fence> fence;
  if (fence_handle != nullptr) {
    fence = Live<Fence>().Find(fence_handle);
    if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (fence->queue().get() != queue) return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
  }
  std::vector<std::shared_ptr<CommandList>> lists;
  for (uint32_t i = 0; i < count; ++i) {
    lists.push_back(Live<CommandList>().Find(list_handles[i]));
    if (lists.back() == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  for (const std::shared_ptr<CommandList>& list : lists) {
    if (!list->closed()) return ZE_RESULT_ERROR_UNINITIALIZED;
  }
  if (DeviceIsLost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  CountSubmission();
  const auto submission = std::make_shared<Queue::Submission>(std::move(fence));
  uint64_t job = 0;
  const ze_result_t result = SubmitEach(*queue, lists, submission, &job);
  if (result != ZE_RESULT_SUCCESS || !queue->synchronous()) return result;
  queue->Await(job);
  return submission->result;
}

ze_result_t CommandQueueSynchronize(ze_command_queue_handle_t handle, uint64_t timeout) {
  const std::shared_ptr<Queue> queue = Live<Queue>().Find(handle);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  const ze_result_t result = queue->Synchronize(DeadlineAfter(timeout));
  return DeviceIsLost() ? ZE_RESULT_ERROR_DEVICE_LOST : result;
}

}  // namespace npubank::software_npu

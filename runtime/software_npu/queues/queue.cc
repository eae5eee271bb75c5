#include "npubank/runtime/software_npu/queues/queue.h"

#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {

Queue::Queue(std::shared_ptr<Context> context)
    : context_(std::move(context)), thread_([this] { Work(); }) {}

Queue::~Queue() { Stop(); }

void Queue::Submit(std::vector<std::shared_ptr<CommandList>> lists, std::shared_ptr<Fence> fence) {
  if (fence != nullptr) fence->Submitted();
  MutexLock lock(mutex_);
  jobs_.push_back({std::move(lists), std::move(fence)});
  ++unfinished_;
  changed_.NotifyAll();
}

ze_result_t Queue::Synchronize(Deadline deadline) {
  MutexLock lock(mutex_);
  while (unfinished_ != 0) {
    if (!changed_.WaitUntil(mutex_, deadline) && unfinished_ != 0) return ZE_RESULT_NOT_READY;
  }
  return std::exchange(failure_, ZE_RESULT_SUCCESS);
}

void Queue::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

ze_result_t Queue::Run(const Job& job) {
  ze_result_t result = ZE_RESULT_SUCCESS;
  for (const std::shared_ptr<CommandList>& list : job.lists) {
    if (DeviceIsLost()) result = ZE_RESULT_ERROR_DEVICE_LOST;
    if (result == ZE_RESULT_SUCCESS) result = list->Run();
    list->End();
  }
  return result;
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
    const ze_result_t result = Run(job);
    job.lists.clear();
    if (job.fence != nullptr) job.fence->Completed(result);
    job.fence.reset();
    MutexLock lock(mutex_);
    --unfinished_;
    if (failure_ == ZE_RESULT_SUCCESS) failure_ = result;
    changed_.NotifyAll();
  }
}

ze_result_t CommandQueueCreate(ze_context_handle_t handle, ze_device_handle_t device,
                               const ze_command_queue_desc_t* desc,
                               ze_command_queue_handle_t* out) {
  std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr || !IsDevice(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->ordinal != 0 || desc->index != 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *out = Live<Queue>().Add(std::make_shared<Queue>(std::move(context)));
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandQueueDestroy(ze_command_queue_handle_t handle) {
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
  if (DeviceIsLost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  const Deadline deadline = JobDeadline();
  for (size_t begun = 0; begun < lists.size(); ++begun) {
    const ze_result_t result = lists[begun]->Begin(deadline);
    if (result == ZE_RESULT_SUCCESS) continue;
    for (size_t i = 0; i < begun; ++i) lists[i]->End();
    return result;
  }
  CountSubmission();
  queue->Submit(std::move(lists), std::move(fence));
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandQueueSynchronize(ze_command_queue_handle_t handle, uint64_t timeout) {
  const std::shared_ptr<Queue> queue = Live<Queue>().Find(handle);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  const ze_result_t result = queue->Synchronize(DeadlineAfter(timeout));
  return DeviceIsLost() ? ZE_RESULT_ERROR_DEVICE_LOST : result;
}

}  // namespace npubank::software_npu

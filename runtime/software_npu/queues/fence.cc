#include "npubank/runtime/software_npu/queues/fence.h"

#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/queues/queue.h"

namespace npubank::software_npu {

Fence::Fence(std::shared_ptr<Queue> queue, bool signaled)
    : queue_(std::move(queue)), signaled_(signaled) {}

Fence::~Fence() = default;

void Fence::Submitted() {
  MutexLock lock(mutex_);
  ++in_flight_;
}

void Fence::Completed(ze_result_t result, std::shared_ptr<const Failure> failure) {
  MutexLock lock(mutex_);
  --in_flight_;
  signaled_ = true;
  if (result_ == ZE_RESULT_SUCCESS) result_ = result;
  if (failure != nullptr) failure_ = std::move(failure);
  changed_.NotifyAll();
}

void Fence::Reset() {
  MutexLock lock(mutex_);
  signaled_ = false;
  result_ = ZE_RESULT_SUCCESS;
  failure_.reset();
}

bool Fence::in_flight() const {
  MutexLock lock(mutex_);
  return in_flight_ != 0;
}

ze_result_t Fence::Query() const {
  MutexLock lock(mutex_);
  return signaled_ ? result_ : ZE_RESULT_NOT_READY;
}

ze_result_t Fence::HostSynchronize(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!signaled_) {
    if (in_flight_ == 0 || !changed_.WaitUntil(mutex_, deadline)) break;
  }
  return signaled_ ? result_ : ZE_RESULT_NOT_READY;
}

ze_result_t FenceCreate(ze_command_queue_handle_t handle, const ze_fence_desc_t* desc,
                        ze_fence_handle_t* out) {
  std::shared_ptr<Queue> queue = Live<Queue>().Find(handle);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const bool signaled = (desc->flags & ZE_FENCE_FLAG_SIGNALED) != 0;
  *out = Live<Fence>().Add(std::make_shared<Fence>(std::move(queue), signaled));
  return ZE_RESULT_SUCCESS;
}

ze_result_t FenceDestroy(ze_fence_handle_t handle) {
  if (Fence* const inherited = Live<Fence>().Disown(handle)) {
    inherited->queue().Leave();
    return ZE_RESULT_SUCCESS;
  }
  const std::shared_ptr<Fence> fence = Live<Fence>().Find(handle);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (fence->in_flight()) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  Live<Fence>().Remove(handle);
  fence->queue().Leave();
  return ZE_RESULT_SUCCESS;
}

ze_result_t FenceHostSynchronize(ze_fence_handle_t handle, uint64_t timeout) {
  const std::shared_ptr<Fence> fence = Live<Fence>().Find(handle);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return fence->HostSynchronize(DeadlineAfter(timeout));
}

ze_result_t FenceQueryStatus(ze_fence_handle_t handle) {
  const std::shared_ptr<Fence> fence = Live<Fence>().Find(handle);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return fence->Query();
}

ze_result_t FenceReset(ze_fence_handle_t handle) {
  const std::shared_ptr<Fence> fence = Live<Fence>().Find(handle);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  fence->Reset();
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu

#include "npubank/runtime/software_npu/queues/event.h"

#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {
namespace {

constexpr uint32_t kMostEvents = 1u << 20;

}  // namespace

bool EventPool::Take(uint32_t index) {
  MutexLock lock(mutex_);
  if (index >= taken_.size() || taken_[index]) return false;
  taken_[index] = true;
  return true;
}

void EventPool::GiveBack(uint32_t index) {
  MutexLock lock(mutex_);
  taken_[index] = false;
}

void Event::Leave() {
  pool_.get()->GiveBack(index_);
  pool_.Leave();
}

void Event::Signal() {
  MutexLock lock(mutex_);
  signaled_ = true;
  changed_.NotifyAll();
}

void Event::Reset() {
  MutexLock lock(mutex_);
  signaled_ = false;
}

bool Event::signaled() const {
  MutexLock lock(mutex_);
  return signaled_;
}

void Event::BeginPending() {
  MutexLock lock(mutex_);
  ++pending_;
}

void Event::EndPending() {
  MutexLock lock(mutex_);
  --pending_;
  changed_.NotifyAll();
}

ze_result_t Event::HostSynchronize(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!signaled_) {
    if (pending_ == 0 || !changed_.WaitUntil(mutex_, deadline)) break;
  }
  return signaled_ ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

bool Event::WaitSignaled(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!signaled_) {
    if (!changed_.WaitUntil(mutex_, deadline)) break;
  }
  return signaled_;
}

ze_result_t EventPoolCreate(ze_context_handle_t handle, const ze_event_pool_desc_t* desc,
                            uint32_t devices, ze_device_handle_t* device_handles,
                            ze_event_pool_handle_t* out) {
  std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->count == 0 || (devices != 0 && device_handles == nullptr)) {
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  if (desc->count > kMostEvents) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  for (uint32_t i = 0; i < devices; ++i) {
    if (!IsDevice(device_handles[i])) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  *out = Live<EventPool>().Add(std::make_shared<EventPool>(std::move(context), desc->count));
  return ZE_RESULT_SUCCESS;
}

ze_result_t EventPoolDestroy(ze_event_pool_handle_t handle) {
  if (EventPool* const inherited = Live<EventPool>().Disown(handle)) {
    inherited->context().Leave();
    return ZE_RESULT_SUCCESS;
  }
  const std::shared_ptr<EventPool> pool = Live<EventPool>().Find(handle);
  if (pool == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (pool->children != 0) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  Live<EventPool>().Remove(handle);
  pool->context().Leave();
  return ZE_RESULT_SUCCESS;
}

ze_result_t EventCreate(ze_event_pool_handle_t handle, const ze_event_desc_t* desc,
                        ze_event_handle_t* out) {
  std::shared_ptr<EventPool> pool = Live<EventPool>().Find(handle);
  if (pool == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (!pool->Take(desc->index)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *out = Live<Event>().Add(std::make_shared<Event>(std::move(pool), desc->index));
  return ZE_RESULT_SUCCESS;
}

ze_result_t EventDestroy(ze_event_handle_t handle) {
  if (Event* const inherited = Live<Event>().Disown(handle)) {
    inherited->LeaveInherited();
    return ZE_RESULT_SUCCESS;
  }
  const std::shared_ptr<Event> event = Live<Event>().Remove(handle);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  event->Leave();
  return ZE_RESULT_SUCCESS;
}

ze_result_t EventHostSignal(ze_event_handle_t handle) {
  const std::shared_ptr<Event> event = Live<Event>().Find(handle);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  event->Signal();
  return ZE_RESULT_SUCCESS;
}

ze_result_t EventHostReset(ze_event_handle_t handle) {
  const std::shared_ptr<Event> event = Live<Event>().Find(handle);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  event->Reset();
  return ZE_RESULT_SUCCESS;
}

ze_result_t EventQueryStatus(ze_event_handle_t handle) {
  const std::shared_ptr<Event> event = Live<Event>().Find(handle);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return event->signaled() ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

ze_result_t EventHostSynchronize(ze_event_handle_t handle, uint64_t timeout) {
  const std::shared_ptr<Event> event = Live<Event>().Find(handle);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  const ze_result_t result = event->HostSynchronize(DeadlineAfter(timeout));
  return result != ZE_RESULT_SUCCESS && DeviceIsLost() ? ZE_RESULT_ERROR_DEVICE_LOST : result;
}

}  // namespace npubank::software_npu

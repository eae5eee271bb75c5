// Handle: move-only ownership of one Level Zero object.
//
//   using FenceHandle = Handle<ze_fence_handle_t, zeFenceDestroy>;
//   FenceHandle fence;
//   ze_result_t result = zeFenceCreate(queue, &desc, fence.Receive());
//
// Level Zero children must be destroyed before their parents: declare members in creation order,
// and keep the parent alive (a Device by shared_ptr) in whatever holds a child.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_HANDLE_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_HANDLE_H_

#include <level_zero/ze_api.h>

#include <chrono>
#include <thread>
#include <utility>

#include "npubank/lazy_tensor/base/live_objects.h"

namespace npubank::level_zero {

// As leak tests name them.
inline const char* KindOf(ze_context_handle_t) { return "Level Zero context"; }
inline const char* KindOf(ze_command_queue_handle_t) { return "Level Zero command queue"; }
inline const char* KindOf(ze_command_list_handle_t) { return "Level Zero command list"; }
inline const char* KindOf(ze_fence_handle_t) { return "Level Zero fence"; }

template <typename T, ze_result_t(ZE_APICALL* Destroy)(T)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), live_(std::move(other.live_)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(live_, other.live_);
    return *this;
  }
  ~Handle() { Reset(); }

  T get() const { return handle_; }
  // For the create call; whatever was held is destroyed first.
  T* Receive() {
    Reset();
    live_ = LiveObject(KindOf(T()));
    return &handle_;
  }
  // After a wait that failed the device may still be at work on the object. Drivers kill a job
  // after two seconds, so within three the object can go; what fails otherwise we could not do
  // better.
  void Reset() {
    live_ = LiveObject();
    if (!handle_) return;
    const T handle = std::exchange(handle_, nullptr);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (Destroy(handle) == ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  T handle_ = nullptr;
  LiveObject live_;
};

using ContextHandle = Handle<ze_context_handle_t, zeContextDestroy>;
using QueueHandle = Handle<ze_command_queue_handle_t, zeCommandQueueDestroy>;
using ListHandle = Handle<ze_command_list_handle_t, zeCommandListDestroy>;
using FenceHandle = Handle<ze_fence_handle_t, zeFenceDestroy>;

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_HANDLE_H_

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

#include <utility>

namespace npubank::level_zero {

template <typename T, ze_result_t(ZE_APICALL* Destroy)(T)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { Reset(); }

  T get() const { return handle_; }
  // For the create call; whatever was held is destroyed first.
  T* Receive() {
    Reset();
    return &handle_;
  }
  void Reset() {
    // A destroy that fails leaves nothing that we could do better; the driver's counts show it.
    if (handle_) Destroy(std::exchange(handle_, nullptr));
  }

 private:
  T handle_ = nullptr;
};

using ContextHandle = Handle<ze_context_handle_t, zeContextDestroy>;
using QueueHandle = Handle<ze_command_queue_handle_t, zeCommandQueueDestroy>;
using ListHandle = Handle<ze_command_list_handle_t, zeCommandListDestroy>;
using FenceHandle = Handle<ze_fence_handle_t, zeFenceDestroy>;

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_HANDLE_H_

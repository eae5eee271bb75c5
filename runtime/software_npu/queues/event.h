// Event: a flag that host and command lists set, reset and wait for. EventPool: where they come
// from.
//
// zeEventHostSynchronize does not block unless a submitted list signals the event: NOT_READY at
// once. Two events of one pool cannot have the same index.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_EVENT_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_EVENT_H_

#include <level_zero/ze_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/queues/deadline.h"

namespace npubank::software_npu {

class EventPool {
 public:
  using Handle = ze_event_pool_handle_t;
  static constexpr HandleKind kHandleKind = HandleKind::kEventPool;
  static constexpr bool kUsableAfterFork = false;

  EventPool(std::shared_ptr<Context> context, uint32_t count)
      : counted_(Counted::Kind::kDriver, count * kEventBytes, context),
        context_(std::move(context)),
        taken_(count, false) {}
  virtual ~EventPool() = default;

  ChildOf<Context>& context() { return context_; }
  // False when there is no such index, or an event has it.
  bool Take(uint32_t index);
  void GiveBack(uint32_t index);

  std::atomic<uint64_t> children{0};

 private:
  // How large a real driver's are is not known; that they are counted is.
  static constexpr uint64_t kEventBytes = 64;

  Counted counted_;
  ChildOf<Context> context_;
  Mutex mutex_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);
};

class Event {
 public:
  using Handle = ze_event_handle_t;
  static constexpr HandleKind kHandleKind = HandleKind::kEvent;
  static constexpr bool kUsableAfterFork = false;

  // The pool's index must have been taken for it.
  Event(std::shared_ptr<EventPool> pool, uint32_t index) : pool_(std::move(pool)), index_(index) {}
  virtual ~Event() = default;

  // The handle is destroyed: the index is free again.
  void Leave();
  // The same in a child of fork, where the pool's lock may be held forever.
  void LeaveInherited() { pool_.Leave(); }

  void Signal();
  void Reset();
  bool signaled() const;

  // A list that will signal it has been submitted, or has ended.
  void BeginPending();
  void EndPending();

  // For the host: NOT_READY at the deadline, or when nobody submitted will signal it.
  ze_result_t HostSynchronize(Deadline deadline);
  // For the device, which waits for whoever may come. False at the deadline.
  bool WaitSignaled(Deadline deadline);

 private:
  ChildOf<EventPool> pool_;
  const uint32_t index_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool signaled_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
};

ze_result_t EventPoolCreate(ze_context_handle_t handle, const ze_event_pool_desc_t* desc,
                            uint32_t devices, ze_device_handle_t* device_handles,
                            ze_event_pool_handle_t* out);
ze_result_t EventPoolDestroy(ze_event_pool_handle_t handle);
ze_result_t EventCreate(ze_event_pool_handle_t handle, const ze_event_desc_t* desc,
                        ze_event_handle_t* out);
ze_result_t EventDestroy(ze_event_handle_t handle);
ze_result_t EventHostSignal(ze_event_handle_t handle);
ze_result_t EventHostReset(ze_event_handle_t handle);
ze_result_t EventQueryStatus(ze_event_handle_t handle);
ze_result_t EventHostSynchronize(ze_event_handle_t handle, uint64_t timeout);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_EVENT_H_

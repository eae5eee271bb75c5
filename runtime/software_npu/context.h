// Context: what owns memory, queues, lists and events, with what of the device it holds.
//
// Destroying a context that still has queues, lists, event pools or graphs is refused with
// HANDLE_OBJECT_IN_USE, where a real driver would use freed memory later. Memory that was not freed
// does not stop it; it stays allocated and counted, so that a leak is seen.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_CONTEXT_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_CONTEXT_H_

#include <level_zero/ze_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {

class Context {
 public:
  using Handle = ze_context_handle_t;
  static constexpr HandleKind kHandleKind = HandleKind::kContext;
  static constexpr bool kUsableAfterFork = true;

  virtual ~Context() = default;

  // Handles that were made from this one and are alive. Their objects count themselves.
  std::atomic<uint64_t> children{0};
  // Bytes of addresses that are taken, kept by Charge.
  std::atomic<uint64_t> mapped_bytes{0};
  // What the context query tells: see Counted (controls/statistics.h).
  std::atomic<uint64_t> counted_bytes{0};
};

// Counts an object as a child of its parent for as long as its handle is alive.
template <class Parent>
class ChildOf {
 public:
  explicit ChildOf(std::shared_ptr<Parent> parent) : parent_(std::move(parent)) {
    ++parent_->children;
  }
  ~ChildOf() { Leave(); }
  ChildOf(const ChildOf&) = delete;
  ChildOf& operator=(const ChildOf&) = delete;

  const std::shared_ptr<Parent>& get() const { return parent_; }
  // The handle is destroyed; the object may live on in work that is under way.
  void Leave() {
    if (!left_.exchange(true)) --parent_->children;
  }

 private:
  std::shared_ptr<Parent> parent_;
  std::atomic<bool> left_{false};
};

ze_result_t ContextCreate(ze_driver_handle_t driver, const ze_context_desc_t* desc,
                          ze_context_handle_t* out);
ze_result_t ContextDestroy(ze_context_handle_t handle);
ze_result_t ContextGetStatus(ze_context_handle_t handle);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_CONTEXT_H_

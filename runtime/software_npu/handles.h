// Handles: the objects behind Level Zero handles, and which of them are alive.
//
//   *out = Live<Fence>().Add(std::make_shared<Fence>(...));      // create
//   std::shared_ptr<Fence> fence = Live<Fence>().Find(handle);   // null: never was, or destroyed
//   Live<Fence>().Remove(handle);                                // destroy
//
// A handle is the address of its object, looked up before it is used, so a stale, foreign or wild
// handle is an error and never a crash. What is at work keeps its objects through the shared_ptr.
// The first word of an object is its vtable pointer: newer loaders read that word only of drivers
// that offer them dispatch tables, which this one does not.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_HANDLES_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_HANDLES_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::software_npu {

// What a loader's wrapper holds: with several drivers the loader gives the host objects of its own
// that start with the driver's handle. Extension functions, which bypass the loader, see those.
// Null when the memory cannot be read. Never faults.
const void* FirstWordOf(const void* handle);

template <class T>
class Registry {
 public:
  using Handle = typename T::Handle;

  Handle Add(std::shared_ptr<T> object) {
    const void* key = object.get();
    MutexLock lock(mutex_);
    objects_[key] = std::move(object);
    return reinterpret_cast<Handle>(const_cast<void*>(key));
  }

  std::shared_ptr<T> Find(Handle handle) const {
    MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // Find, for handles that came past the loader.
  std::shared_ptr<T> FindUnwrapped(Handle handle) const {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<T> object = Find(handle);
    if (object != nullptr) return object;
    return Find(reinterpret_cast<Handle>(const_cast<void*>(FirstWordOf(handle))));
  }

  std::shared_ptr<T> Remove(Handle handle) {
    MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return objects_.size();
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> objects_ ABSL_GUARDED_BY(mutex_);
};

template <class T>
Registry<T>& Live() {
  static auto* const registry = new Registry<T>;
  return *registry;
}

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_HANDLES_H_

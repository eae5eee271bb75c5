// DriverPool: the handles that a driver's functions were given by each other, alive and dead.
//
//   DriverPool pool(context, device, driver);
//   pool.Add(typeid(ze_event_handle_t), event);
//   pool.DestroyAll();
//
// Threads: any.
#ifndef NPUBANK_TESTS_CONFORMANCE_DRIVER_POOL_H_
#define NPUBANK_TESTS_CONFORMANCE_DRIVER_POOL_H_

#include <level_zero/ze_api.h>

#include <cstdint>
#include <map>
#include <typeindex>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

class DriverPool {
 public:
  DriverPool(ze_context_handle_t context, ze_device_handle_t device, ze_driver_handle_t driver);

  ze_driver_handle_t driver() const { return driver_; }
  // A handle of this kind, dead or alive; 0 when there never was one.
  uint64_t Any(std::type_index kind, uint64_t chance) const;
  // Of no matter what kind.
  uint64_t AnyOfAll(uint64_t chance) const;
  bool Knows(std::type_index kind, uint64_t handle) const;
  // What a call has given.
  void Add(std::type_index kind, uint64_t handle);
  // Ends the waiting of whatever waits for an event.
  void SignalEvents() const;
  // Whatever is still alive of all that was made.
  void DestroyAll();

 private:
  template <class Handle, class Destroy>
  void DestroyKind(Destroy destroy);
  std::vector<uint64_t> All(std::type_index kind) const;

  const ze_context_handle_t context_;
  const ze_driver_handle_t driver_;
  mutable Mutex mutex_;
  std::map<std::type_index, std::vector<uint64_t>> handles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_CONFORMANCE_DRIVER_POOL_H_

// Allocation: a range of addresses that Level Zero knows: memory of its own, imported pages, or
// reserved addresses with physical memory mapped into them. And AddressMap, which finds it.
//
//   std::optional<Place> place = AddressMap::Get().Find(context, pointer);
//   uint8_t* bytes = place->allocation->Access(place->offset, n, Intent::kRead);   // null: may not
//
// What commands keep is a Place: it holds the memory, so zeMemFree does not return bytes that a
// command list still references.
// Threads: any. Access is valid while the Allocation is held (and, for reservations, pinned).
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ALLOCATION_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ALLOCATION_H_

#include <level_zero/ze_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/memory/backing.h"

namespace npubank::software_npu {

enum class Intent { kRead, kWrite };

class Allocation {
 public:
  Allocation(std::shared_ptr<Context> context, ze_memory_type_t type, uint8_t* base,
             uint64_t bytes);
  virtual ~Allocation() = default;

  // Where the driver touches [offset, offset + bytes); null when that is not all there, or not to
  // be written.
  virtual uint8_t* Access(uint64_t offset, uint64_t bytes, Intent intent) const = 0;
  // Its mapping does not change while this is held; null where it never changes.
  virtual std::shared_mutex* mapping_mutex() const { return nullptr; }
  // The file behind it, for export; -1: none.
  virtual int fd() const { return -1; }
  // What was handed out, and what zeMemFree takes; null where zeMemFree does not free it.
  virtual const uint8_t* pointer() const { return base_; }

  const std::shared_ptr<Context>& context() const { return context_; }
  ze_memory_type_t type() const { return type_; }
  uint8_t* base() const { return base_; }  // as the host sees it
  uint64_t bytes() const { return bytes_; }
  uint64_t id() const { return id_; }
  // What zeMemGetAddressRange calls the base: an address of the device, of no use to the host.
  uint64_t device_address() const { return device_address_; }

 protected:
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }

 private:
  std::shared_ptr<Context> context_;
  ze_memory_type_t type_;
  uint8_t* base_;
  uint64_t bytes_;
  uint64_t id_;
  uint64_t device_address_;
};

struct Place {
  std::shared_ptr<Allocation> allocation;
  uint64_t offset = 0;

  uint8_t* Access(uint64_t bytes, Intent intent) const {
    return allocation->Access(offset, bytes, intent);
  }
};

// Keeps the mappings of some places as they are: what executes holds one.
class Pins {
 public:
  explicit Pins(const std::vector<Place>& places);

 private:
  std::vector<std::shared_lock<std::shared_mutex>> locks_;
};

class AddressMap {
 public:
  static AddressMap& Get();

  // False when it would overlap something there.
  bool Add(std::shared_ptr<Allocation> allocation);
  // Takes out what lies in `context` at exactly this address.
  std::shared_ptr<Allocation> Remove(const Context* context, const void* base);
  std::optional<Place> Find(const Context* context, const void* pointer) const;
  bool Overlaps(const void* begin, uint64_t bytes) const;
  // The allocation of `context` whose pages are those of this file.
  std::shared_ptr<Allocation> FindFile(const Context* context, int fd) const;

 private:
  bool OverlapsLocked(uint64_t begin, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Allocation>> allocations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ALLOCATION_H_

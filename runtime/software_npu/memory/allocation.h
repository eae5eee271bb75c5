// Allocation: a range of addresses that Level Zero knows: memory of its own, imported pages, or
// reserved addresses with physical memory mapped into them. And AddressMap, which finds it.
//
//   std::optional<Place> place = AddressMap::Get().Find(context, pointer);
//   uint8_t* bytes = place->allocation->Access(place->offset, n, Intent::kRead);   // null: may not
//
// A pointer past what was asked for is in no allocation, though its page goes on. What commands keep
// is a Place: it holds the memory, so zeMemFree does not return bytes that a
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
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/memory/dma_buf.h"

namespace npubank::software_npu {

enum class Intent { kRead, kWrite };

class Allocation {
 public:
  // `bytes` are what can be used; `mapped` are whole pages, which nobody else can have.
  Allocation(std::shared_ptr<Context> context, ze_memory_type_t type, uint8_t* base, uint64_t bytes,
             uint64_t mapped);
  virtual ~Allocation() = default;

  // Where the driver touches [offset, offset + bytes); null when that is not all there, or not to
  // be written.
  virtual uint8_t* Access(uint64_t offset, uint64_t bytes, Intent intent) const = 0;
  // What of it the context's query counts.
  virtual uint64_t counted() const { return bytes_; }
  // Its mapping does not change while this is held; null where it never changes.
  virtual std::shared_mutex* mapping_mutex() const { return nullptr; }
  // Its pages are still all there. False once the file behind an import has lost some that were
  // touched: what was read were zeros.
  virtual bool intact() const { return true; }
  // The buffer that may be exported; null: none.
  virtual const DmaBuf* exportable() const { return nullptr; }
  // Whether zeMemFree of this pointer, which lies inside, frees it.
  virtual bool IsFreedBy(const void* pointer) const { return pointer == base_; }

  const std::shared_ptr<Context>& context() const { return context_; }
  ze_memory_type_t type() const { return type_; }
  uint8_t* base() const { return base_; }  // as the host sees it
  uint64_t bytes() const { return bytes_; }
  uint64_t mapped() const { return mapped_; }
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
  uint64_t mapped_;
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

  AddressMap() { KeepAcrossForks(mutex_); }

  // False when it would overlap something there. The context's query counts its bytes from now until
  // it is taken out, but those of reservations, which are addresses only.
  bool Add(std::shared_ptr<Allocation> allocation);
  // Takes out what lies in `context` at exactly this address.
  std::shared_ptr<Allocation> Remove(const Context* context, const void* base);
  std::optional<Place> Find(const Context* context, const void* pointer) const;
  bool Overlaps(const void* begin, uint64_t bytes) const;

 private:
  struct Entry {
    std::shared_ptr<Allocation> allocation;
    Counted counted;
  };

  bool OverlapsLocked(uint64_t begin, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ALLOCATION_H_

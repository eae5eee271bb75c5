// Virtual memory: device addresses apart from the physical memory behind them.
//
//   NPUBANK_ASSIGN_OR_RETURN(uint64_t page, VirtualPageBytes(*device));
//   NPUBANK_ASSIGN_OR_RETURN(AddressRange range, AddressRange::Reserve(device, 1 << 30));
//   NPUBANK_ASSIGN_OR_RETURN(PhysicalMemory tile, PhysicalMemory::Create(device, 2 << 20));
//   NPUBANK_ASSIGN_OR_RETURN(Mapping mapping,
//                            Mapping::Create(device, range.address(), tile.handle(), 0, 2 << 20));
//
// All sizes and offsets are multiples of the page. Mappings go before their tile and their range.
// Threads: any; each object by one at a time.
// Errors: Unimplemented where the driver has no virtual memory (no NPU driver has it today);
// ResourceExhausted when memory or addresses are short.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_VIRTUAL_MEMORY_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_VIRTUAL_MEMORY_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/runtime/level_zero/device.h"

namespace npubank::level_zero {

// What sizes, offsets and addresses of mappings are multiples of.
absl::StatusOr<uint64_t> VirtualPageBytes(const Device& device);

// Addresses without memory.
class AddressRange {
 public:
  static absl::StatusOr<AddressRange> Reserve(std::shared_ptr<Device> device, uint64_t bytes);
  AddressRange(AddressRange&& other) noexcept
      : device_(std::move(other.device_)),
        address_(std::exchange(other.address_, nullptr)),
        bytes_(other.bytes_),
        live_(std::move(other.live_)) {}
  AddressRange& operator=(AddressRange&&) = delete;
  ~AddressRange();

  std::byte* address() const { return static_cast<std::byte*>(address_); }
  uint64_t bytes() const { return bytes_; }

 private:
  AddressRange() = default;
  std::shared_ptr<Device> device_;
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
  LiveObject live_;
};

// Memory without an address.
class PhysicalMemory {
 public:
  static absl::StatusOr<PhysicalMemory> Create(std::shared_ptr<Device> device, uint64_t bytes);
  PhysicalMemory(PhysicalMemory&& other) noexcept
      : device_(std::move(other.device_)),
        handle_(std::exchange(other.handle_, nullptr)),
        bytes_(other.bytes_),
        live_(std::move(other.live_)) {}
  PhysicalMemory& operator=(PhysicalMemory&&) = delete;
  ~PhysicalMemory();

  ze_physical_mem_handle_t handle() const { return handle_; }
  uint64_t bytes() const { return bytes_; }

 private:
  PhysicalMemory() = default;
  std::shared_ptr<Device> device_;
  ze_physical_mem_handle_t handle_ = nullptr;
  uint64_t bytes_ = 0;
  LiveObject live_;
};

// Some of a PhysicalMemory at some of an AddressRange, to read and write.
class Mapping {
 public:
  static absl::StatusOr<Mapping> Create(std::shared_ptr<Device> device, void* address,
                                        ze_physical_mem_handle_t memory, uint64_t offset,
                                        uint64_t bytes);
  Mapping(Mapping&& other) noexcept
      : device_(std::move(other.device_)),
        address_(std::exchange(other.address_, nullptr)),
        bytes_(other.bytes_),
        live_(std::move(other.live_)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

 private:
  Mapping() = default;
  std::shared_ptr<Device> device_;
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
  LiveObject live_;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_VIRTUAL_MEMORY_H_

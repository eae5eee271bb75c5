// Buffer: one allocation of a context, host or device; freed on destruction.
//
//   NPUBANK_ASSIGN_OR_RETURN(Buffer logits, Buffer::AllocateHost(device, bytes, "logits"));
//   std::memcpy(out, logits.address(), bytes);
//
// Host memory is plain memory to the CPU; device memory may be write-combined (slow to read) or out
// of the host's reach (see Device::integrated). Errors: ResourceExhausted naming the buffer and its
// size.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_BUFFER_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/runtime/level_zero/device.h"

namespace npubank::level_zero {

class Buffer {
 public:
  static absl::StatusOr<Buffer> AllocateHost(std::shared_ptr<Device> device, uint64_t bytes,
                                             absl::string_view name);
  static absl::StatusOr<Buffer> AllocateDevice(std::shared_ptr<Device> device, uint64_t bytes,
                                               absl::string_view name);
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : device_(std::move(other.device_)),
        address_(std::exchange(other.address_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        live_(std::move(other.live_)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    std::swap(live_, other.live_);
    return *this;
  }
  ~Buffer();

  void* address() const { return address_; }
  uint64_t size() const { return size_; }
  absl::Span<std::byte> bytes() const { return {static_cast<std::byte*>(address_), size_}; }
  // What it costs: rounded up to the pages that the driver says it is made of.
  uint64_t reserved_bytes() const;

 private:
  std::shared_ptr<Device> device_;
  void* address_ = nullptr;
  uint64_t size_ = 0;
  LiveObject live_;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_BUFFER_H_

// HeldBuffer: a buffer of the driver that is accounted for.
#ifndef NPUBANK_RUNTIME_MEMORY_HELD_BUFFER_H_
#define NPUBANK_RUNTIME_MEMORY_HELD_BUFFER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "npubank/runtime/level_zero/buffer.h"
#include "npubank/runtime/memory/accounting.h"

namespace npubank {

class HeldBuffer {
 public:
  HeldBuffer(level_zero::Buffer buffer, std::shared_ptr<Accounting> accounting)
      : buffer_(std::move(buffer)), bytes_(buffer_.reserved_bytes()), accounting_(std::move(accounting)) {
    accounting_->Hold(bytes_, buffer_.size());
  }
  HeldBuffer(HeldBuffer&& other) noexcept
      : buffer_(std::move(other.buffer_)), bytes_(other.bytes_), accounting_(std::move(other.accounting_)) {}
  HeldBuffer& operator=(HeldBuffer&&) = delete;
  ~HeldBuffer() {
    if (!accounting_) return;
    const uint64_t asked = buffer_.size();
    buffer_ = level_zero::Buffer();
    accounting_->Release(bytes_, asked);
  }

  std::byte* address() const { return static_cast<std::byte*>(buffer_.address()); }
  uint64_t reserved_bytes() const { return bytes_; }

 private:
  level_zero::Buffer buffer_;
  uint64_t bytes_;
  std::shared_ptr<Accounting> accounting_;  // null: moved from
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_HELD_BUFFER_H_

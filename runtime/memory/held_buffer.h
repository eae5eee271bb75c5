// HeldBuffer: a buffer of the driver that the books know of.
#ifndef NPUBANK_RUNTIME_MEMORY_HELD_BUFFER_H_
#define NPUBANK_RUNTIME_MEMORY_HELD_BUFFER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "npubank/runtime/level_zero/buffer.h"
#include "npubank/runtime/memory/books.h"

namespace npubank {

class HeldBuffer {
 public:
  HeldBuffer(level_zero::Buffer buffer, std::shared_ptr<Books> books)
      : buffer_(std::move(buffer)), bytes_(buffer_.reserved_bytes()), books_(std::move(books)) {
    books_->Hold(bytes_, buffer_.size());
  }
  HeldBuffer(HeldBuffer&& other) noexcept
      : buffer_(std::move(other.buffer_)), bytes_(other.bytes_), books_(std::move(other.books_)) {}
  HeldBuffer& operator=(HeldBuffer&&) = delete;
  ~HeldBuffer() {
    if (!books_) return;
    const uint64_t asked = buffer_.size();
    buffer_ = level_zero::Buffer();
    books_->LetGo(bytes_, asked);
  }

  std::byte* address() const { return static_cast<std::byte*>(buffer_.address()); }
  uint64_t reserved_bytes() const { return bytes_; }

 private:
  level_zero::Buffer buffer_;
  uint64_t bytes_;
  std::shared_ptr<Books> books_;  // null: moved from
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_HELD_BUFFER_H_

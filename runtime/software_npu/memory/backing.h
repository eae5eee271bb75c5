// Backing: the pages behind device memory, and the two addresses they are seen at.
//
//   std::optional<Mapping> pages = Mapping::Anonymous(bytes);     // host and driver see the same
//   std::optional<BackingRange> tile = BackingRange::Take(bytes);       // pages without an address
//   std::optional<Mapping> view = Mapping::Shared(tile->fd(), tile->offset(), bytes, PROT_READ);
//
// Pages are committed when they are first touched, and given back when their owner goes. Everything
// here is move-only and owns what it names; nullopt means that the system refused.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_BACKING_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_BACKING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "npubank/runtime/software_npu/controls/forks.h"

namespace npubank::software_npu {

// A range of addresses, unmapped at the end.
class Mapping {
 public:
  static std::optional<Mapping> Anonymous(uint64_t bytes);
  static std::optional<Mapping> Shared(int fd, uint64_t offset, uint64_t bytes, int protection);
  // The shared pages at `data` once more, at other addresses.
  static std::optional<Mapping> Again(void* data, uint64_t bytes);
  // Addresses only; touching them faults.
  static std::optional<Mapping> Reserve(uint64_t bytes);

  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

  // Replaces [offset, offset + bytes) of a reservation by pages of a file, or by nothing again.
  bool MapInside(uint64_t offset, int fd, uint64_t file_offset, uint64_t bytes, int protection);
  bool ClearInside(uint64_t offset, uint64_t bytes);
  // Or by the shared pages that are mapped at `data`, once more; false where they are not shared.
  bool MapAgainInside(uint64_t offset, void* data, uint64_t bytes);
  bool ProtectInside(uint64_t offset, uint64_t bytes, int protection);

 private:
  Mapping(void* data, uint64_t bytes) : data_(static_cast<uint8_t*>(data)), bytes_(bytes) {}
  static std::optional<Mapping> Adopt(void* data, uint64_t bytes);

  uint8_t* data_;
  uint64_t bytes_;
};

// Bytes of the one file that holds all pages which need more than one address. Offsets are never
// used twice; what is given back becomes a hole, which costs nothing.
class BackingRange {
 public:
  static std::optional<BackingRange> Take(uint64_t bytes);

  BackingRange(BackingRange&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        offset_(other.offset_),
        bytes_(other.bytes_),
        born_(other.born_) {}
  BackingRange& operator=(BackingRange&&) = delete;
  ~BackingRange();

  int fd() const { return fd_; }
  uint64_t offset() const { return offset_; }
  uint64_t bytes() const { return bytes_; }

 private:
  BackingRange(int fd, uint64_t offset, uint64_t bytes)
      : fd_(fd), offset_(offset), bytes_(bytes), born_(ForkGeneration()) {}

  int fd_;
  uint64_t offset_;
  uint64_t bytes_;
  uint64_t born_;  // a child of fork has the file in common with its parent, and leaves it alone
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_BACKING_H_

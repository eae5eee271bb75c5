// DmaBuf: pages that another context or process may map: a file in memory that stands for a dma-buf.
//
//   std::optional<DmaBuf> buffer = DmaBuf::Create(bytes);
//   int fd = buffer->Export();                              // a descriptor of its own; the caller's
//   std::optional<DmaBuf> same = DmaBuf::Adopt(fd);         // in any process; `fd` stays the caller's
//
// A buffer's size is fixed for good, by seals that no holder can lift, so what is mapped of it never
// loses its pages. Any other file, a memfd of somebody else's too, is no buffer.
// nullopt and -1: the system refused, or it is no buffer. Move-only. Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_DMA_BUF_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_DMA_BUF_H_

#include <cstdint>
#include <optional>
#include <utility>

namespace npubank::software_npu {

class DmaBuf {
 public:
  static std::optional<DmaBuf> Create(uint64_t bytes);
  static std::optional<DmaBuf> Adopt(int fd);

  DmaBuf(DmaBuf&& other) noexcept : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}
  DmaBuf& operator=(DmaBuf&&) = delete;
  ~DmaBuf();

  int Export() const;
  int fd() const { return fd_; }
  uint64_t bytes() const { return bytes_; }

 private:
  DmaBuf(int fd, uint64_t bytes) : fd_(fd), bytes_(bytes) {}

  int fd_;
  uint64_t bytes_;
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_DMA_BUF_H_

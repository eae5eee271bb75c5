// LostPages: notices that the file behind a range of the driver's own mapping has lost pages.
//
//   LostPages watched(view.data(), view.bytes());
//   ... read the view ...
//   if (watched.any()) return false;     // what was read were zeros
//
// A device keeps the pages that it has pinned whatever becomes of their file. A process cannot: when
// the file shrinks, touching a page that is gone raises SIGBUS. The handler here puts a page of
// zeros in its place and notes it, so the driver goes on and the job that read it fails. A SIGBUS at
// any other address goes to whoever handled it before.
// Threads: any. Move-only by pointer: the object is where its watch is.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_LOST_PAGES_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_LOST_PAGES_H_

#include <cstdint>

namespace npubank::software_npu {

class LostPages {
 public:
  LostPages(const void* data, uint64_t bytes);
  ~LostPages();
  LostPages(const LostPages&) = delete;
  LostPages& operator=(const LostPages&) = delete;

  bool any() const;

 private:
  struct Watch;
  Watch* const watch_;
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_LOST_PAGES_H_

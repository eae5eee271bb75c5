// LostPages: notices that the file behind a mapping of our own has lost pages, and lets the reader go on.
//
//   LostPages watched(data, bytes);
//   ... read the mapping ...
//   if (watched.any()) ... some of what was read were zeros, not the file's bytes ...
//
// A page that a file no longer has, because another program truncated it or the disk failed, raises
// SIGBUS when it is touched. The handler installed by the first of these puts a page of zeros there and
// notes it. A SIGBUS at any other address goes to the handler that was there before. A program that
// installs its own handler later should pass on what it does not know; where it does not, a truncated
// file ends the process, as with any mapping.
// A shared library that links this has a handler of its own, in line with the others.
// Threads: any. Neither copied nor moved: the object is where its watch is.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FILES_LOST_PAGES_H_
#define NPUBANK_LAZY_TENSOR_BASE_FILES_LOST_PAGES_H_

#include <cstdint>

namespace npubank {

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

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FILES_LOST_PAGES_H_

// FileFault: makes the system fail one of a program's reads or writes of files (pread, pwrite).
//
//   FileFault fault(FileFault::kWrite, /*nth=*/3, EIO);   // the third from now, once
//   EXPECT_FALSE(cache->Save().ok());
//   EXPECT_TRUE(fault.happened());
//
// Armed until it goes out of scope, for every thread; one at a time. It defines the two functions
// itself, for the program it is linked into.
#ifndef NPUBANK_TESTS_SUPPORT_SYSTEM_FILE_FAULTS_H_
#define NPUBANK_TESTS_SUPPORT_SYSTEM_FILE_FAULTS_H_

#include <cstddef>
#include <cstdint>

namespace npubank {

class FileFault {
 public:
  enum Call { kRead, kWrite };
  FileFault(Call call, uint64_t nth, int error);
  ~FileFault();
  FileFault(const FileFault&) = delete;
  FileFault& operator=(const FileFault&) = delete;

  bool happened() const;
};

// ShortTransfers: while it lives, no read or write moves more than `most` bytes at once.
class ShortTransfers {
 public:
  explicit ShortTransfers(size_t most);
  ~ShortTransfers();
  ShortTransfers(const ShortTransfers&) = delete;
  ShortTransfers& operator=(const ShortTransfers&) = delete;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_SYSTEM_FILE_FAULTS_H_

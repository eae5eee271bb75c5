// FileLock: of all who name one path, in whatever process or thread, one has it at a time.
//
//   NPUBANK_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire("weights.cache.lock"));
//   ... read the file, write another, rename it ...
//
// Acquire waits for who has it. The path is a file of its own, empty, that is made for the lock and
// removed with it. A process that dies lets go, but leaves the file: the next one takes that, and
// removes it.
// Errors: those of AtomicFile; Unavailable where the file system has no locks.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FILE_LOCK_H_
#define NPUBANK_LAZY_TENSOR_BASE_FILE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace npubank {

class FileLock {
 public:
  static absl::StatusOr<FileLock> Acquire(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor);

  std::string path_;  // empty until it is held
  int descriptor_ = -1;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FILE_LOCK_H_

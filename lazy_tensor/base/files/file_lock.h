// FileLock: of all who name one path, in whatever process or thread, one has it at a time.
//
//   NPUBANK_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire("weights.cache.lock"));
//   ... read the file, write another, rename it ...
//
// Acquire waits for who has it, as long as the caller has patience. The path is a file of its own,
// empty, that is made for the lock and removed with it. A process that dies lets go, but leaves the
// file: the next one takes that, and removes it.
// Errors: DeadlineExceeded when another had it all the time; InvalidArgument when the path is there
// and no regular file; else SystemError (file_descriptor.h), as where the file system has no locks.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_LOCK_H_
#define NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_LOCK_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank {

class FileLock {
 public:
  struct Patience {
    std::chrono::milliseconds limit = std::chrono::seconds(30);  // 0: no waiting
    std::function<void()> on_wait = nullptr;  // told once, on this thread, before the first wait
  };
  static absl::StatusOr<FileLock> Acquire(const std::string& path, const Patience& patience);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock() = default;
  // False while another has it.
  absl::StatusOr<bool> Try(const std::string& path);

  std::string path_;  // empty until it is held
  FileDescriptor file_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_LOCK_H_

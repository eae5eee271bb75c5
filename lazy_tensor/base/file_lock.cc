#include "npubank/lazy_tensor/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "npubank/lazy_tensor/base/file_descriptor.h"

namespace npubank {
namespace {

int LockOnce(int descriptor) {
  int result = flock(descriptor, LOCK_EX);
  while (result != 0 && errno == EINTR) result = flock(descriptor, LOCK_EX);
  return result;
}

bool IsAt(int descriptor, const std::string& path) {
  struct stat mine;
  struct stat there;
  return fstat(descriptor, &mine) == 0 && stat(path.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path) {
  for (;;) {
    FileLock lock(FileDescriptor::Open(path, O_RDWR | O_CREAT, 0666));
    if (!lock.file_.is_open()) return SystemError(errno, "cannot create", path);
    const int descriptor = lock.file_.get();
    if (LockOnce(descriptor) != 0) {
      lock.path_ = path;  // nobody can lock it: it need not stay either
      return SystemError(errno, "cannot lock", path);
    }
    // Who had it while we waited may have removed the file: then this lock keeps nobody out.
    if (!IsAt(descriptor, path)) continue;
    lock.path_ = path;
    return lock;
  }
}

FileLock::FileLock(FileDescriptor file) : file_(std::move(file)) {}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::exchange(other.path_, std::string())), file_(std::move(other.file_)) {}

FileLock::~FileLock() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace npubank

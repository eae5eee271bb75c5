#include "npubank/lazy_tensor/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "npubank/lazy_tensor/base/atomic_file.h"

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
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EINTR) continue;
    if (descriptor < 0) return FileError(errno, path, "cannot create");
    FileLock lock(descriptor);
    if (LockOnce(descriptor) != 0) {
      lock.path_ = path;  // nobody can lock it: it need not stay either
      return FileError(errno, path, "cannot lock");
    }
    // Who had it while we waited may have removed the file: then this lock keeps nobody out.
    if (!IsAt(descriptor, path)) continue;
    lock.path_ = path;
    return lock;
  }
}

FileLock::FileLock(int descriptor) : descriptor_(descriptor) {}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::exchange(other.path_, std::string())),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (!path_.empty()) unlink(path_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace npubank

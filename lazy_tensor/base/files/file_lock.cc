#include "npubank/lazy_tensor/base/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongestPause{50};

int LockNow(int descriptor) {
  int result = 0;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Who had the lock while we waited may have removed the file: then ours keeps nobody out.
absl::StatusOr<bool> IsAt(const struct stat& mine, const std::string& path) {
  struct stat there;
  if (lstat(path.c_str(), &there) == 0) {
    return mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
  }
  if (errno == ENOENT) return false;
  return SystemError(errno, "cannot stat", path);
}

}  // namespace

absl::StatusOr<bool> FileLock::Try(const std::string& path) {
  file_ = FileDescriptor::Open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (!file_.is_open()) return SystemError(errno, "cannot create", path);
  struct stat mine;
  if (fstat(file_.get(), &mine) != 0) return SystemError(errno, "cannot stat", path);
  if (!S_ISREG(mine.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no file to lock; remove it"));
  }
  if (LockNow(file_.get()) != 0) {
    if (errno == EWOULDBLOCK) return false;
    const absl::Status status = SystemError(errno, "cannot lock", path);
    path_ = path;  // nobody can lock it: it need not stay either
    return status;
  }
  NPUBANK_ASSIGN_OR_RETURN(const bool held, IsAt(mine, path));
  if (held) path_ = path;
  return held;
}

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, const Patience& patience) {
  const auto deadline = steady_clock::now() + patience.limit;
  bool told = false;
  for (milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    FileLock lock;
    NPUBANK_ASSIGN_OR_RETURN(const bool held, lock.Try(path));
    if (held) return lock;
    if (steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("another process has had '", path, "' for ", patience.limit.count(), " ms"));
    }
    if (!std::exchange(told, true) && patience.on_wait) patience.on_wait();
    std::this_thread::sleep_for(pause);
  }
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::exchange(other.path_, std::string())), file_(std::move(other.file_)) {}

FileLock::~FileLock() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace npubank

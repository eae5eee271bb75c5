#include "npubank/lazy_tensor/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

absl::Status FileError(int error, const std::string& path, absl::string_view what) {
  const std::string message = absl::StrCat(what, " '", path, "': ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

namespace {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

// So that the new name itself survives a power cut. A file system that cannot do it is no error.
void SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) fsync(descriptor.get());
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  // Not mkostemp: a result is as readable as any other file the user writes, and what the user's
  // mask is can only be asked by changing it for the whole process.
  static std::atomic<uint64_t> number = 0;
  while (true) {
    std::string temporary = absl::StrCat(path, ".", getpid(), ".", ++number);
    const int descriptor = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return AtomicFile(path, std::move(temporary), descriptor);
    // A name that somebody left there, or another container's process of our number, is passed by.
    if (errno != EEXIST && errno != EINTR) return FileError(errno, path, "cannot create");
  }
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_.load()) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Failed(absl::string_view what) const {
  return FileError(errno, path_, what);
}

absl::Status AtomicFile::Append(absl::string_view bytes) { return WriteAt(size_, bytes); }

absl::Status AtomicFile::WriteAt(uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("cannot write");
    offset += written;
    bytes.remove_prefix(written);
    uint64_t size = size_;
    while (offset > size && !size_.compare_exchange_weak(size, offset)) {
    }
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::ReadAt(uint64_t offset, absl::Span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("cannot read");
    if (got == 0)
      return absl::DataLossError(absl::StrCat("'", path_, "' is shorter than expected"));
    offset += got;
    out.remove_prefix(got);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(descriptor_) != 0) return Failed("cannot sync");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("cannot rename into place");
  temporary_.clear();
  SyncFolderOf(path_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t limit) {
  // O_NONBLOCK: opening a pipe must not wait for a writer before we can say that it is no file.
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return FileError(errno, path, "cannot open");
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) return FileError(errno, path, "cannot stat");
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not a regular file"));
  }
  if (static_cast<uint64_t>(status.st_size) > limit) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' has ", status.st_size,
                                                   " bytes, more than the ", limit,
                                                   " such a file may have"));
  }
  std::string bytes(status.st_size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(descriptor.get(), bytes.data() + done, bytes.size() - done, done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path, "cannot read");
    if (got == 0) break;  // it shrank; what is missing is the reader's to notice
    done += got;
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace npubank

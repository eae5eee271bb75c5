#include "npubank/lazy_tensor/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/file_descriptor.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// So that the new name itself survives a power cut. A file system that cannot do it is no error.
void SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor opened = FileDescriptor::Open(folder, O_RDONLY | O_DIRECTORY);
  if (opened.is_open()) fsync(opened.get());
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  // Not mkostemp: a result is as readable as any other file the user writes, and what the user's
  // mask is can only be asked by changing it for the whole process.
  static std::atomic<uint64_t> number = 0;
  while (true) {
    std::string temporary = absl::StrCat(path, ".", getpid(), ".", ++number);
    FileDescriptor file = FileDescriptor::Open(temporary, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (file.is_open()) return AtomicFile(path, std::move(temporary), std::move(file));
    // A name that somebody left there, or another container's process of our number, is passed by.
    if (errno != EEXIST) return SystemError(errno, "cannot create", path);
  }
}

AtomicFile::AtomicFile(std::string path, std::string temporary, FileDescriptor file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      file_(std::move(other.file_)),
      size_(other.size_.load()) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) { return WriteAt(size_, bytes); }

absl::Status AtomicFile::WriteAt(uint64_t offset, absl::string_view bytes) {
  NPUBANK_RETURN_IF_ERROR(npubank::WriteAt(file_, path_, offset, bytes));
  const uint64_t end = offset + bytes.size();
  uint64_t size = size_;
  while (!bytes.empty() && end > size && !size_.compare_exchange_weak(size, end)) {
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::ReadAt(uint64_t offset, absl::Span<std::byte> out) const {
  NPUBANK_ASSIGN_OR_RETURN(const size_t got, npubank::ReadAt(file_, path_, offset, out));
  if (got == out.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("'", path_, "' is shorter than expected"));
}

absl::Status AtomicFile::Commit() {
  if (fsync(file_.get()) != 0) return SystemError(errno, "cannot sync", path_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return SystemError(errno, "cannot rename into place", path_);
  }
  temporary_.clear();
  SyncFolderOf(path_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t limit) {
  // O_NONBLOCK: opening a pipe must not wait for a writer before we can say that it is no file.
  const FileDescriptor file = FileDescriptor::Open(path, O_RDONLY | O_NONBLOCK);
  if (!file.is_open()) return SystemError(errno, "cannot open", path);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return SystemError(errno, "cannot stat", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not a regular file"));
  }
  if (static_cast<uint64_t>(status.st_size) > limit) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' has ", status.st_size,
                                                   " bytes, more than the ", limit,
                                                   " such a file may have"));
  }
  std::string bytes(status.st_size, '\0');
  const auto all = absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  NPUBANK_ASSIGN_OR_RETURN(const size_t got, ReadAt(file, path, 0, all));
  bytes.resize(got);  // it may have shrunk; what is missing is the reader's to notice
  return bytes;
}

}  // namespace npubank

#include "npubank/lazy_tensor/base/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr int kMostLinks = 40;  // as the system itself

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// The rule of the system's protected_symlinks: in a folder where everybody may write and nobody may
// remove what is another's, a link is followed by who made it, or when the folder's owner did.
bool MayFollow(const struct stat& link, const std::string& folder) {
  struct stat around;
  if (stat(folder.c_str(), &around) != 0) return false;
  const bool everybodys = (around.st_mode & S_ISVTX) != 0 && (around.st_mode & S_IWOTH) != 0;
  return !everybodys || link.st_uid == geteuid() || link.st_uid == around.st_uid;
}

absl::StatusOr<std::string> TargetOf(const std::string& link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t bytes = readlink(link.c_str(), target.data(), target.size());
  if (bytes < 0) return SystemError(errno, "cannot follow the link", link);
  target.resize(static_cast<size_t>(bytes));
  return target.front() == '/' ? target : FolderOf(link) + target;
}

// So that the new name itself survives a power cut. A file system that cannot do it is no error.
void SyncFolderOf(const std::string& path) {
  const FileDescriptor folder = FileDescriptor::Open(FolderOf(path), O_RDONLY | O_DIRECTORY);
  if (folder.is_open()) fsync(folder.get());
}

std::string NameInProc(const FileDescriptor& file) {
  return absl::StrCat("/proc/self/fd/", file.get());
}

// A file without a name that can be given one; closed where the system has none.
FileDescriptor OpenUnnamed(const std::string& folder) {
  FileDescriptor file = FileDescriptor::Open(folder, O_RDWR | O_TMPFILE, 0666);
  if (file.is_open() && access(NameInProc(file).c_str(), F_OK) != 0) file.Close();
  return file;
}

// Beside the path, tried until one is free: `take` returns whether it could make the name, or errno
// EEXIST where somebody left it there, or another container's process of our number.
template <typename Take>
absl::StatusOr<std::string> TakeFreeName(const std::string& path, Take take) {
  static std::atomic<uint64_t> number = 0;
  while (true) {
    std::string name = absl::StrCat(path, ".", getpid(), ".", ++number);
    if (take(name)) return name;
    if (errno != EEXIST) return SystemError(errno, "cannot create", path);
  }
}

}  // namespace

absl::StatusOr<std::string> ReplaceableFile(std::string path) {
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat facts;
    if (lstat(path.c_str(), &facts) != 0) {
      if (errno == ENOENT) return path;  // a new file, or its folder is not there either
      return SystemError(errno, "cannot stat", path);
    }
    if (S_ISREG(facts.st_mode)) return path;
    if (!S_ISLNK(facts.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' is not a regular file and is not replaced; name another"));
    }
    if (!MayFollow(facts, FolderOf(path))) {
      return absl::PermissionDeniedError(absl::StrCat(
          "'", path, "' is a link that somebody else put into a folder of everybody's"));
    }
    NPUBANK_ASSIGN_OR_RETURN(path, TargetOf(path));
  }
  return SystemError(ELOOP, "cannot follow the link", path);
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(std::string target, ReplaceableFile(path));
  FileDescriptor unnamed = OpenUnnamed(FolderOf(target));
  if (unnamed.is_open()) return AtomicFile(std::move(target), "", std::move(unnamed));
  // Not mkostemp: a result is as readable as any other file the user writes, and what the user's
  // mask is can only be asked by changing it for the whole process.
  FileDescriptor file;
  NPUBANK_ASSIGN_OR_RETURN(std::string temporary, TakeFreeName(target, [&](const auto& name) {
                             file = FileDescriptor::Open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
                             return file.is_open();
                           }));
  return AtomicFile(std::move(target), std::move(temporary), std::move(file));
}

AtomicFile::AtomicFile(std::string path, std::string temporary, FileDescriptor file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      file_(std::move(other.file_)),
      direct_(std::move(other.direct_)),
      size_(other.size_.load()) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::WriteDirectly() {
  direct_ = FileDescriptor::Open(NameInProc(file_), O_WRONLY | O_DIRECT);
}

absl::Status AtomicFile::Append(absl::string_view bytes) { return WriteAt(size_, bytes); }

// How many of `bytes` went straight to the disk. What did not, for whatever reason, goes the other way, whose errors count.
size_t AtomicFile::WroteDirectly(uint64_t offset, absl::string_view bytes) const {
  const size_t size = bytes.size() / kDirectAlignment * kDirectAlignment;
  const uint64_t places = offset | reinterpret_cast<uintptr_t>(bytes.data());
  if (!direct_.is_open() || size == 0 || places % kDirectAlignment != 0) return 0;
  return npubank::WriteAt(direct_, path_, offset, bytes.substr(0, size)).ok() ? size : 0;
}

absl::Status AtomicFile::WriteAt(uint64_t offset, absl::string_view bytes) {
  const uint64_t end = offset + bytes.size();
  const size_t written = WroteDirectly(offset, bytes);
  NPUBANK_RETURN_IF_ERROR(npubank::WriteAt(file_, path_, offset + written, bytes.substr(written)));
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
  if (temporary_.empty()) {
    NPUBANK_ASSIGN_OR_RETURN(temporary_, TakeFreeName(path_, [&](const auto& name) {
                               return linkat(AT_FDCWD, NameInProc(file_).c_str(), AT_FDCWD,
                                             name.c_str(), AT_SYMLINK_FOLLOW) == 0;
                             }));
  }
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

#include "npubank/lazy_tensor/base/files/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace npubank {

FileDescriptor FileDescriptor::Open(const std::string& path, int flags, mode_t mode) {
  int value = -1;
  do {
    value = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (value < 0 && errno == EINTR);
  return FileDescriptor(value);
}

void FileDescriptor::Close() {
  // Not again after EINTR: Linux has closed it, and another thread may have its number by now.
  if (value_ >= 0) close(std::exchange(value_, -1));
}

absl::Status SystemError(int error, absl::string_view what, absl::string_view name) {
  const std::string message = absl::StrCat(what, " '", name, "': ", std::strerror(error));
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

absl::StatusOr<size_t> ReadAt(const FileDescriptor& file, absl::string_view name, uint64_t offset,
                              absl::Span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(file.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(errno, "cannot read", name);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

absl::Status WriteAt(const FileDescriptor& file, absl::string_view name, uint64_t offset,
                     absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(errno, "cannot write", name);
    if (written == 0) return SystemError(EIO, "cannot write", name);  // nor will it the next time
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace npubank

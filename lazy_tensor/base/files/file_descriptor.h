// FileDescriptor: an open file of the system, closed when the object goes; and what its errors mean.
//
//   FileDescriptor file = FileDescriptor::Open(path, O_RDONLY);
//   if (!file.is_open()) return SystemError(errno, "cannot open", path);
//   NPUBANK_ASSIGN_OR_RETURN(size_t got, ReadAt(file, path, offset, bytes));
//
// Ownership: moved, never copied; what was moved from is closed. A descriptor that the process
// starts another program with is closed there (O_CLOEXEC). Threads: reading and writing from any.
//
// ReadAt and WriteAt go on after a signal and after a part, until all is done. Errors: SystemError.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_DESCRIPTOR_H_
#define NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_DESCRIPTOR_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace npubank {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  // Takes over what the system gave; negative: closed.
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      value_ = std::exchange(other.value_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }

  // open(2), again after a signal; closed, with errno, when it fails.
  static FileDescriptor Open(const std::string& path, int flags, mode_t mode = 0);

  bool is_open() const { return value_ >= 0; }
  int get() const { return value_; }
  void Close();

 private:
  int value_ = -1;
};

// What errno `error` means, as "<what> '<name>': <the system's words>".
//   NotFound           the file, or a folder on the way to it, is not there
//   PermissionDenied   it may not be read or written, or its file system is read-only
//   ResourceExhausted  the disk is full, or the file would be too large
//   Unavailable        all else; trying again may help
absl::Status SystemError(int error, absl::string_view what, absl::string_view name);

// Reads into all of `out` from `offset`; returns how many bytes, fewer only when the file ends.
absl::StatusOr<size_t> ReadAt(const FileDescriptor& file, absl::string_view name, uint64_t offset,
                              absl::Span<std::byte> out);
// Writes all of `bytes` from `offset`; after an error some of them may be written.
absl::Status WriteAt(const FileDescriptor& file, absl::string_view name, uint64_t offset,
                     absl::string_view bytes);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_DESCRIPTOR_H_

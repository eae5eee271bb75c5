// AtomicFile: a file that is either there complete or not there: written as a draft without a name,
// synced, and put in its place by a rename.
//
//   NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create("run.bank"));
//   NPUBANK_RETURN_IF_ERROR(file.Append(bytes));
//   NPUBANK_RETURN_IF_ERROR(file.Commit());
//
// Dropped without Commit, or with the process, the draft is gone: it has no name until Commit
// (O_TMPFILE). Where the file system cannot do that it lies beside the path under a name of its
// own, which a process that is killed leaves behind. Two writers of one path do not disturb each
// other; the last Commit wins.
//
// What is replaced is a regular file, or nothing: a device, a pipe, a folder is refused. A path that
// is a symbolic link stays one, and the file that it names is replaced; a link that somebody else
// put into a folder where everybody may write (/tmp) is refused, as the system's own open does.
//
// Ownership: moved, never copied. Threads: WriteAt and ReadAt from any, on ranges that do not
// overlap; the rest one at a time.
// Errors: SystemError (file_descriptor.h), where NotFound and PermissionDenied are about the folder;
// InvalidArgument for what is not a regular file; PermissionDenied for a link that is not followed.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FILES_ATOMIC_FILE_H_
#define NPUBANK_LAZY_TENSOR_BASE_FILES_ATOMIC_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank {

class AtomicFile {
 public:
  static constexpr uint64_t kDirectAlignment = 4096;

  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // From now on what begins at a multiple of kDirectAlignment, in memory and in the file, goes straight to the disk, but for
  // what is over a multiple of it (O_DIRECT; where the file system cannot, nothing changes). It saves copying, and Commit
  // has nothing to wait for; the writer waits instead, and who reads the file next finds none of it in memory.
  void WriteDirectly();
  absl::Status Append(absl::string_view bytes);
  // Over what is there already, for a header that is known last.
  absl::Status WriteAt(uint64_t offset, absl::string_view bytes);
  // What was written there, before Commit or after it; DataLoss beyond the end.
  absl::Status ReadAt(uint64_t offset, absl::Span<std::byte> out) const;
  uint64_t size() const { return size_; }
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, FileDescriptor file);
  size_t WroteDirectly(uint64_t offset, absl::string_view bytes) const;

  std::string path_;       // what Commit replaces: no link
  std::string temporary_;  // the draft's name; empty while it has none, and once committed
  FileDescriptor file_;
  FileDescriptor direct_;  // the same file; closed unless it is written directly
  std::atomic<uint64_t> size_ = 0;
};

// The file that `path` means after its links, if it may be replaced: what AtomicFile replaces. For
// what lies beside that file and is found by its name, as a lock.
absl::StatusOr<std::string> ReplaceableFile(std::string path);

// A whole regular file of at most `limit` bytes.
// Errors: NotFound / PermissionDenied; InvalidArgument for what is not a regular file or is too
// large.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t limit);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FILES_ATOMIC_FILE_H_

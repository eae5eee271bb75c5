// FileIdentity: which bytes an open file has: an identity, which is part of every digest, and a stamp,
// which is only checked.
//
//   NPUBANK_ASSIGN_OR_RETURN(FileIdentity file, FileIdentity::Of(descriptor, path));
//   file.identity;    // device, inode, size, mtime in ns
//   file.samples;     // a hash over a few windows of it
//
// Device, inode, size and mtime can be those of another file: where images give every file one mtime
// and the file system uses an inode again, or after a copy that sets the time back. So a few windows
// are hashed when a file is opened, and this process remembers them: a file that has another's
// identity and other samples gets an identity of its own, made of both. While ctime is what it was the
// windows are not read again; a hard link or a chmod changes ctime and nothing else. Across processes
// the samples are compared where results are kept (bank/files/cache_file.h).
//
// Promised: two files whose windows differ are never taken for each other. Not promised: files of one
// size and one mtime on one inode that differ only between the windows.
// Threads: any. Cost: 16 reads of 4 KiB, once per file; what is remembered, some 100 bytes per file,
// stays until the process ends. Errors: those of the reads, naming the file; InvalidArgument for what
// is no regular file.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_FILE_IDENTITY_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_FILE_IDENTITY_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

// What the system says of a file that tells whether it was written to.
struct FileFacts {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t mtime_seconds = 0;
  int64_t mtime_nanoseconds = 0;

  static FileFacts Of(const struct stat& facts);
  bool operator==(const FileFacts&) const = default;
};

// Whether the windows are read through this descriptor although they are known: a descriptor that can
// be read proves that its owner may.
enum class SampleFile { kWhenUnknown, kAlways };

struct FileIdentity {
  FileFacts facts;
  Digest identity;
  Digest samples;

  static absl::StatusOr<FileIdentity> Of(const FileDescriptor& file, const std::string& path,
                                         SampleFile sample = SampleFile::kWhenUnknown);
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_FILE_IDENTITY_H_

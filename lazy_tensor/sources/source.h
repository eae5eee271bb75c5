// Source: where constant bytes live, a file or a buffer in memory, and the identity of those bytes.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> file, Source::OpenFile("model.safetensors"));
//   NPUBANK_RETURN_IF_ERROR(file->Read(offset, absl::MakeSpan(header)));
//
// Identity is never an address. A file is (device, inode, size, mtime in ns): two paths or hard
// links to one file agree; a file rewritten in place is another source, and so is one that only looks
// the same (file_identity.h).
// A buffer is a number that is never reused, with a random process key, so that two processes never
// mistake each other's buffers.
//
// A file that changes while it is open. Whoever reads it, with Read or in place, never meets SIGBUS
// (mapped_file.h) and asks CheckUnchanged afterwards, as the evaluator does after every tile: it
// gives DataLoss for a file that was truncated or written to, and what was read from it is worth
// nothing. A change is seen by size and mtime: a rewrite of the same size within one tick of the file
// system's clock (often 1 to 4 ms) after the open is not seen.
//
// Ownership: shared. A recipe's Constant keeps its Source, and a SourceHold on its range, alive.
// Threads: every method may be called from any thread at any time.
// Errors: NotFound / PermissionDenied when a file cannot be opened; InvalidArgument for what is not
// a regular file; OutOfRange for a range beyond the end; DataLoss when the file has changed or
// shrunk since it was opened (reopen the checkpoint); Unavailable when the system fails to read.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

enum class FileAccess {
  kMap,   // read in place (MAP_SHARED, read-only, mapped when it is first needed)
  kRead,  // never mapped: for file systems where mapping is slow or unsafe
};

class Source {
 public:
  static absl::StatusOr<std::shared_ptr<Source>> OpenFile(const std::string& path,
                                                          FileAccess access = FileAccess::kMap);
  // A file that is open already, for reading; nothing is opened by its name, which is for messages.
  static absl::StatusOr<std::shared_ptr<Source>> OfDescriptor(
      FileDescriptor file, const std::string& name, FileAccess access = FileAccess::kMap);
  // Takes the bytes; `name` appears in messages and snapshots.
  static std::shared_ptr<Source> FromBuffer(std::vector<std::byte> bytes, std::string name);

  virtual ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& name() const { return name_; }  // the path, or the buffer's name
  const Digest& identity() const { return identity_; }
  // Of a file: a hash over a few windows, beside the identity and not part of it (file_identity.h).
  const Digest& samples() const { return samples_; }
  uint64_t size() const { return size_; }
  // Whether the identity means the same bytes in another process: true for files.
  virtual bool persistent() const = 0;

  // Copies [offset, offset + out.size()) into `out`. A file that shrank gives DataLoss, never
  // SIGBUS.
  virtual absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const = 0;
  // The bytes where they are, valid while the Source lives, of a file that is what it was now;
  // FailedPrecondition for FileAccess::kRead.
  virtual absl::StatusOr<absl::Span<const std::byte>> View(uint64_t offset,
                                                           uint64_t length) const = 0;
  // All the bytes where they are, unchecked: ask CheckUnchanged when they have been used. Empty for
  // what must be read with Read.
  virtual absl::Span<const std::byte> InPlace() const { return {}; }
  // Whether its bytes are those of a file that may be mapped, by View or through the descriptor.
  virtual bool mappable() const { return false; }
  // Whether its bytes are in memory and stay there, so that there is nothing to bring in.
  virtual bool in_memory() const { return false; }
  // The open file, for who maps it or compares it; not the caller's to close, nor to be used when
  // the Source is gone. -1: none.
  virtual int descriptor() const { return -1; }
  // The bytes in [offset, offset + length) will not be needed soon: a mapping gives its pages back.
  virtual void Release(uint64_t offset, uint64_t length) const = 0;
  // DataLoss when what was read so far may not be what the identity says. One fstat for a file.
  virtual absl::Status CheckUnchanged() const { return absl::OkStatus(); }

 protected:
  Source(std::string name, Digest identity, uint64_t size, Digest samples = {});

 private:
  friend class SourceHold;
  friend struct HeldSourceReader;  // retention.cc
  std::string name_;
  Digest identity_;
  uint64_t size_;
  Digest samples_;
  const LiveObject live_;
  // What recipes hold of this source (retention.h).
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> holders_{0};
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_H_

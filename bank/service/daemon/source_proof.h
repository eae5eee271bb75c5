// Proof of possession: whether a descriptor that a stranger sent proves that he may read a file.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<BroughtFile> file,
//                            BroughtFile::Take(std::move(descriptor), "model.safetensors"));
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, file->Open());   // as often as wanted
//
// What Take asks for, in this order:
//   - of the system's own table (fdinfo), without touching the file: that it was opened for reading and
//     is not only a name (O_PATH, which anybody may have of a file he may not read); and on which mount it
//     lies. A file system in user space may keep whoever asks it anything, even its size, for ever,
//     beyond kill -9: it is refused, and so is a mount whose type nobody tells, which may be one. A
//     daemon with mounts of its own (a hardened unit, a container) does not see its clients' mounts among
//     them: then the client's own list is asked, which the kernel writes and no client can change. The
//     number of a mount is the whole machine's, and not another's while a file on it is open;
//   - that it is a regular file;
//   - that the windows its identity is made of can be read through that very descriptor.
// Nothing is ever opened by a path, or opened again: what is read, is read through what was brought. So
// the file stays open, and its disk space taken, as long as the BroughtFile lives.
// Errors: PermissionDenied for what proves nothing, naming it and saying why; InvalidArgument for what
// is no regular file; else those of reading. The descriptor is closed then.
// Threads: any. Cost: two small files of /proc and 16 reads of 4 KiB; Open a dup and an fstat.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_SOURCE_PROOF_H_
#define NPUBANK_BANK_SERVICE_DAEMON_SOURCE_PROOF_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank::service {

// What /proc says of a descriptor and of mounts, judged: a part of Take that needs no file.
absl::Status JudgeDescriptor(absl::string_view fdinfo, absl::string_view mountinfo);

class BroughtFile {
 public:
  // `name`: what the one who brought it calls it; for messages only. `client`: the pid of a process that
  // has the file's mount among its own; 0: nobody known. It must be this user's, and not have made itself
  // unreadable (PR_SET_DUMPABLE), for its list to be seen.
  static absl::StatusOr<std::shared_ptr<BroughtFile>> Take(FileDescriptor file, std::string name,
                                                           uint32_t client);

  const std::string& name() const { return name_; }
  const Digest& identity() const { return identity_; }
  const Digest& samples() const { return samples_; }
  uint64_t size() const { return size_; }
  absl::StatusOr<std::shared_ptr<Source>> Open() const;

 private:
  BroughtFile(FileDescriptor file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  const FileDescriptor file_;
  const std::string name_;
  Digest identity_;
  Digest samples_;
  uint64_t size_ = 0;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_SOURCE_PROOF_H_

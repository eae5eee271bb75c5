#include "npubank/bank/service/segment.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

#ifndef MFD_NOEXEC_SEAL  // since Linux 6.3
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace npubank::service {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
constexpr size_t kMostNameBytes = 200;  // the system takes 249

std::string NameInProc(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

// As SystemError, but what runs out here is memory: a caller frees something and tries again.
absl::Status SegmentError(int error, absl::string_view what, absl::string_view name) {
  const absl::Status status = SystemError(error, what, name);
  if (error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(absl::StrCat(
        status.message(), "; each tensor of 2 MiB and more takes a descriptor: raise the limit"));
  }
  return error == ENOMEM ? absl::ResourceExhaustedError(status.message()) : status;
}

FileDescriptor CreateMemory(absl::string_view name) {
  const std::string shown = absl::StrCat("npubank:", name.substr(0, kMostNameBytes));
  const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  FileDescriptor file(memfd_create(shown.c_str(), flags | MFD_NOEXEC_SEAL));
  if (file.is_open() || errno != EINVAL) return file;
  return FileDescriptor(memfd_create(shown.c_str(), flags));  // an older kernel
}

bool HasAllSeals(const FileDescriptor& file) {
  const int seals = fcntl(file.get(), F_GET_SEALS);  // only memory has any
  return seals >= 0 && (seals & kSeals) == kSeals;
}

std::atomic<int>& Spares() {
  static std::atomic<int> spares = 0;
  return spares;
}

uint64_t NextId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Segment::Segment(FileDescriptor file, absl::string_view name)
    : name_(name), id_(NextId()), file_(std::move(file)) {}

Segment::~Segment() {
  MutexLock lock(mutex_);
  if (spare_.is_open()) --Spares();
}

absl::StatusOr<std::shared_ptr<Segment>> Segment::Create(absl::string_view name) {
  FileDescriptor file = CreateMemory(name);
  if (!file.is_open()) return SegmentError(errno, "cannot make shared memory for", name);
  return std::shared_ptr<Segment>(new Segment(std::move(file), name));
}

absl::StatusOr<std::shared_ptr<Segment>> Segment::Adopt(FileDescriptor file,
                                                        absl::string_view name) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no segment: ", why));
  };
  const int flags = fcntl(file.get(), F_GETFL);
  if (flags < 0) return refused("no descriptor");
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY)
    return refused("it is not readable");
  if (!HasAllSeals(file)) return refused("it is not sealed memory");
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return SegmentError(errno, "cannot stat", name);
  if (facts.st_size <= 0 || facts.st_size % static_cast<off_t>(kPage) != 0) {
    return refused(absl::StrCat("it has ", facts.st_size, " bytes"));
  }
  std::shared_ptr<Segment> segment(new Segment(std::move(file), name));
  segment->sealed_bytes_ = static_cast<uint64_t>(facts.st_size);
  return segment;
}

absl::Status Segment::Write(uint64_t offset, absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SegmentError(written < 0 ? errno : EIO, "no shared memory for", name_);
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<AlignedMapping> Segment::MapToWrite(uint64_t bytes, bool huge_pages) {
  const auto size = static_cast<off_t>(bytes);
  if (ftruncate(file_.get(), size) != 0)
    return SegmentError(errno, "cannot set the length of", name_);
  NPUBANK_ASSIGN_OR_RETURN(
      AlignedMapping mapping,
      AlignedMapping::Map(file_.get(), 0, bytes, PROT_READ | PROT_WRITE, name_));
  if (huge_pages) {
    // The system joins no stretch that is quite empty.
    constexpr uint64_t kStretch = AlignedMapping::kHugePage;
    const std::byte zero[1] = {};
    for (uint64_t at = 0; at + kStretch <= bytes; at += kStretch) {
      NPUBANK_RETURN_IF_ERROR(Write(at, zero));
    }
    in_huge_pages_ = mapping.Join();
  }
  // A page for which there is no memory would be a signal when it is touched, and is an error here.
  while (fallocate(file_.get(), 0, 0, size) != 0) {
    if (errno != EINTR) return SegmentError(errno, "no shared memory for", name_);
  }
  return mapping;
}

absl::Status Segment::GiveBack(uint64_t offset, uint64_t bytes) {
  if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(bytes)) == 0) {
    return absl::OkStatus();
  }
  return SegmentError(errno, "cannot give back shared memory of", name_);
}

absl::Status Segment::Seal(uint64_t bytes) {
  if (!HasAllSeals(file_)) {  // else this is another try
    if (ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) {
      return SegmentError(errno, "cannot set the length of", name_);
    }
    if (fcntl(file_.get(), F_ADD_SEALS, kSeals) != 0) {
      return SegmentError(errno, "cannot seal", name_);
    }
  }
  const FileDescriptor readable = FileDescriptor::Open(NameInProc(file_.get()), O_RDONLY);
  if (!readable.is_open()) return SegmentError(errno, "cannot open for reading", name_);
  // The number stays, and who reads meanwhile reads on: it is replaced at one stroke.
  if (dup3(readable.get(), file_.get(), O_CLOEXEC) < 0) {
    return SegmentError(errno, "cannot keep for reading", name_);
  }
  sealed_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status Segment::Read(uint64_t offset, absl::Span<std::byte> out) const {
  NPUBANK_ASSIGN_OR_RETURN(const size_t got, ReadAt(file_, name_, offset, out));
  if (got == out.size()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("reading [", offset, ", +", out.size(),
                                            ") of segment '", name_, "', which ends before that"));
}

absl::StatusOr<FileDescriptor> Segment::OpenForReading() const {
  if (!sealed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment '", name_, "' is not sealed and is not handed out"));
  }
  {
    MutexLock lock(mutex_);
    if (spare_.is_open()) {
      --Spares();
      return std::move(spare_);
    }
  }
  FileDescriptor theirs = FileDescriptor::Open(NameInProc(file_.get()), O_RDONLY);
  if (!theirs.is_open() && errno == EACCES) {  // a receiver has changed its mode
    theirs = FileDescriptor(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  }
  if (!theirs.is_open()) return SegmentError(errno, "cannot open for another process", name_);
  return theirs;
}

// One more than are counted may be open for a moment.
void Segment::PrepareForReading() const {
  {
    MutexLock lock(mutex_);
    if (spare_.is_open() || !sealed()) return;
  }
  FileDescriptor spare = FileDescriptor::Open(NameInProc(file_.get()), O_RDONLY);
  if (!spare.is_open()) return;
  MutexLock lock(mutex_);
  if (spare_.is_open()) return;
  if (Spares()++ < kMostSpares) {
    spare_ = std::move(spare);
  } else {
    --Spares();
  }
}

absl::StatusOr<uint64_t> Segment::MemoryBytes() const {
  struct stat facts;
  if (fstat(file_.get(), &facts) != 0) return SegmentError(errno, "cannot stat", name_);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

}  // namespace npubank::service

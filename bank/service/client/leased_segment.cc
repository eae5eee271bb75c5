#include "npubank/bank/service/client/leased_segment.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Digest NextIdentity() {
  static std::atomic<int64_t> taken{0};
  return DigestBuilder("leased segment").Add(++taken).Finish();
}

}  // namespace

LeasedSegment::LeasedSegment(uint64_t number, uint64_t bytes, FileDescriptor file, Memory memory,
                             ReleaseGrants release)
    : Source(absl::StrCat("shared segment ", number), NextIdentity(), bytes),
      file_(std::move(file)),
      memory_(std::move(memory)),
      number_(number),
      release_(std::move(release)) {}

LeasedSegment::~LeasedSegment() { release_(number_, grants_); }

void LeasedSegment::SwapGrants(LeasedSegment& other) {
  std::swap(number_, other.number_);
  std::swap(release_, other.release_);
  std::swap(grants_, other.grants_);
}

absl::StatusOr<std::shared_ptr<LeasedSegment>> LeasedSegment::Take(uint64_t number, uint64_t bytes,
                                                                   FileDescriptor file,
                                                                   ReleaseGrants release) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  const int flags = fcntl(file.get(), F_GETFL);
  struct stat facts;
  const bool whole = seals >= 0 && (seals & kSeals) == kSeals && (flags & O_ACCMODE) == O_RDONLY &&
                     fstat(file.get(), &facts) == 0 &&
                     static_cast<uint64_t>(facts.st_size) == bytes && bytes > 0;
  if (!whole) {
    return absl::InvalidArgumentError(absl::StrCat("segment ", number,
                                                   " of the daemon is not sealed, or has not the ",
                                                   bytes, " bytes it says"));
  }
  return std::shared_ptr<LeasedSegment>(new LeasedSegment(
      number, bytes, std::move(file), {facts.st_dev, facts.st_ino}, std::move(release)));
}

absl::Status LeasedSegment::Read(uint64_t offset, absl::Span<std::byte> out) const {
  NPUBANK_RETURN_IF_ERROR(CheckRange(name(), offset, out.size(), size()));
  return ReadAt(file_, name(), offset, out).status();  // a sealed file has what its size says
}

absl::StatusOr<absl::Span<const std::byte>> LeasedSegment::View(uint64_t, uint64_t) const {
  return absl::FailedPreconditionError(absl::StrCat("'", name(), "' is imported, or read, not mapped"));
}

}  // namespace npubank::service

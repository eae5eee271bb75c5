#include "npubank/runtime/software_npu/memory/dma_buf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace npubank::software_npu {
namespace {

constexpr char kName[] = "npubank_dma_buf";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What the system calls the file behind a descriptor.
std::string NameOf(int fd) {
  char name[64];
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), name, sizeof(name) - 1);
  return std::string(name, length > 0 ? static_cast<size_t>(length) : 0);
}

bool IsBuffer(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals &&
         absl::StartsWith(NameOf(fd), absl::StrCat("/memfd:", kName));
}

}  // namespace

std::optional<DmaBuf> DmaBuf::Create(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return std::nullopt;
  DmaBuf buffer(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING), bytes);
  if (buffer.fd_ < 0 || ftruncate(buffer.fd_, static_cast<off_t>(bytes)) != 0 ||
      fcntl(buffer.fd_, F_ADD_SEALS, kSeals) != 0) {
    return std::nullopt;
  }
  return buffer;
}

std::optional<DmaBuf> DmaBuf::Adopt(int fd) {
  // Its own descriptor first: what is checked is what is kept, whatever becomes of the caller's.
  DmaBuf buffer(fcntl(fd, F_DUPFD_CLOEXEC, 0), 0);
  struct stat status = {};
  if (buffer.fd_ < 0 || !IsBuffer(buffer.fd_) || fstat(buffer.fd_, &status) != 0 ||
      status.st_size <= 0) {
    return std::nullopt;
  }
  buffer.bytes_ = static_cast<uint64_t>(status.st_size);
  return buffer;
}

int DmaBuf::Export() const { return fcntl(fd_, F_DUPFD_CLOEXEC, 0); }

DmaBuf::~DmaBuf() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace npubank::software_npu

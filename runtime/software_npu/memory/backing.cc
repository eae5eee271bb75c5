#include "npubank/runtime/software_npu/memory/backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::software_npu {
namespace {

constexpr char kFileName[] = "software_npu";
constexpr uint64_t kHugePage = uint64_t{2} << 20;

// The file of BackingRange: grows, never shrinks, lives as long as the process.
struct SharedFile {
  SharedFile() { KeepAcrossForks(mutex); }

  Mutex mutex;
  int fd ABSL_GUARDED_BY(mutex) = -1;
  uint64_t end ABSL_GUARDED_BY(mutex) = 0;
};

SharedFile& GetSharedFile() {
  static auto* const file = new SharedFile;
  return *file;
}

bool FitsOffset(uint64_t offset, uint64_t bytes) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<off_t>::max());
  return offset <= kMost && bytes <= kMost - offset;
}

}  // namespace

std::optional<Mapping> Mapping::Adopt(void* data, uint64_t bytes) {
  if (data == MAP_FAILED) return std::nullopt;
  return Mapping(data, bytes);
}

std::optional<Mapping> Mapping::Anonymous(uint64_t bytes) {
  std::optional<Mapping> mapping = Adopt(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                                         bytes);
  // Fewer page faults while weights arrive; a hint, so its failure does not matter.
  if (mapping.has_value() && bytes >= 2 * kHugePage) {
    (void)madvise(mapping->data(), bytes, MADV_HUGEPAGE);
  }
  return mapping;
}

std::optional<Mapping> Mapping::Shared(int fd, uint64_t offset, uint64_t bytes, int protection) {
  return Adopt(mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset)), bytes);
}

// An old size of 0 asks for a second mapping of the same shared pages (mremap(2)).
std::optional<Mapping> Mapping::Again(void* data, uint64_t bytes) {
  return Adopt(mremap(data, 0, bytes, MREMAP_MAYMOVE), bytes);
}

std::optional<Mapping> Mapping::Reserve(uint64_t bytes) {
  return Adopt(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
               bytes);
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool Mapping::MapInside(uint64_t offset, int fd, uint64_t file_offset, uint64_t bytes,
                        int protection) {
  return mmap(data_ + offset, bytes, protection, MAP_SHARED | MAP_FIXED, fd,
              static_cast<off_t>(file_offset)) != MAP_FAILED;
}

bool Mapping::ClearInside(uint64_t offset, uint64_t bytes) {
  return mmap(data_ + offset, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool Mapping::MapAgainInside(uint64_t offset, void* data, uint64_t bytes) {
  return mremap(data, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + offset) != MAP_FAILED;
}

bool Mapping::ProtectInside(uint64_t offset, uint64_t bytes, int protection) {
  return mprotect(data_ + offset, bytes, protection) == 0;
}

std::optional<BackingRange> BackingRange::Take(uint64_t bytes) {
  SharedFile& file = GetSharedFile();
  MutexLock lock(file.mutex);
  if (file.fd < 0) file.fd = memfd_create(kFileName, MFD_CLOEXEC);
  if (file.fd < 0 || !FitsOffset(file.end, bytes)) return std::nullopt;
  if (ftruncate(file.fd, static_cast<off_t>(file.end + bytes)) != 0) return std::nullopt;
  const uint64_t offset = file.end;
  file.end += bytes;
  return BackingRange(file.fd, offset, bytes);
}

BackingRange::~BackingRange() {
  if (fd_ < 0 || born_ != ForkGeneration()) return;
  (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_),
                  static_cast<off_t>(bytes_));
}

}  // namespace npubank::software_npu

#include "npubank/lazy_tensor/sources/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "npubank/lazy_tensor/base/align.h"

namespace npubank {

std::unique_ptr<MappedFile> MappedFile::Map(int fd, uint64_t size, uint64_t offset) {
  void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return nullptr;
  return std::unique_ptr<MappedFile>(new MappedFile({static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  lost_.reset();  // before another mapping can have the address
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(uint64_t offset, uint64_t length) const {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Whole pages inside the range; the last page of the file counts as whole.
  const uint64_t begin = AlignUp(offset, page);
  uint64_t end = offset + length;
  if (end != bytes_.size()) end = end / page * page;
  if (begin < end) {
    madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace npubank

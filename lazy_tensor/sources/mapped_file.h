// MappedFile: a file's bytes in memory, which may be read whatever becomes of the file.
//
//   std::unique_ptr<MappedFile> file = MappedFile::Map(fd, size);     // null: it cannot be mapped
//   Use(file->bytes());
//   if (file->lost()) ...                       // some of what was used was not the file's
//
// A page that the file no longer has reads as zeros and is noted (base/files/lost_pages.h, which says what that
// means for a program's own SIGBUS handler), so whoever reads goes on, and must ask lost() before using
// what it made.
//
// Ownership: unmaps at its end. Threads: any.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_MAPPED_FILE_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/files/lost_pages.h"

namespace npubank {

class MappedFile {
 public:
  // MAP_SHARED and read-only: the pages are the page cache's own. `size` is not 0; it begins at
  // `offset` in the file, a multiple of the system's page. errno says why it is null.
  static std::unique_ptr<MappedFile> Map(int fd, uint64_t size, uint64_t offset = 0);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::Span<const std::byte> bytes() const { return bytes_; }
  bool lost() const { return lost_->any(); }
  // The bytes in [offset, offset + length) will not be needed soon: whole pages are given back.
  void Release(uint64_t offset, uint64_t length) const;

 private:
  explicit MappedFile(absl::Span<const std::byte> bytes)
      : bytes_(bytes), lost_(std::in_place, bytes.data(), bytes.size()) {}

  const absl::Span<const std::byte> bytes_;
  std::optional<LostPages> lost_;  // watched until the bytes are unmapped
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_MAPPED_FILE_H_

// MappedFile: a file's bytes in memory, which may be read whatever becomes of the file.
//
//   std::unique_ptr<MappedFile> file = MappedFile::Map(fd, size);     // null: it cannot be mapped
//   Use(file->bytes());
//   if (file->lost()) ...                       // some of what was used was not the file's
//
// A page that the file no longer has, because another program truncated it or the disk failed, would
// raise SIGBUS. The handler installed by the first Map puts a page of zeros there instead and notes
// the loss, so whoever reads goes on, and must ask lost() before using what it made. A SIGBUS at any
// other address goes to the handler that was there before. A program that installs its own handler
// later should pass on what it does not know; where it does not, a truncated file ends the process,
// as with any mapping.
//
// Ownership: unmaps at its end. Threads: any.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_MAPPED_FILE_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

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
  bool lost() const;
  // The bytes in [offset, offset + length) will not be needed soon: whole pages are given back.
  void Release(uint64_t offset, uint64_t length) const;

 private:
  struct Guard;
  MappedFile(absl::Span<const std::byte> bytes, Guard* guard) : bytes_(bytes), guard_(guard) {}

  const absl::Span<const std::byte> bytes_;
  Guard* const guard_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_MAPPED_FILE_H_

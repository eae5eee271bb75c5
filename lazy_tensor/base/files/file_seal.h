// FileSeal: 40 bytes in front of a file that say what it is, where its index lies, and whether the
// two are whole.
//
//   std::string file = EncodeSeal(kKind, FileSeal::kBytes, index) + index;
//   NPUBANK_ASSIGN_OR_RETURN(const FileSeal seal, ReadSeal(kKind, file, file.size()));
//   NPUBANK_RETURN_IF_ERROR(CheckSeal(kKind, file, file.substr(seal.offset, seal.size)));
//
//   0      8         16       24     32        40
//   | magic | version | offset | size | checksum |      numbers little-endian
//
// The checksum is XXH3 over the 32 bytes before it and the index, so any changed byte of either is
// seen. It protects against accidents, not against somebody who means to deceive: what reads the
// index still bounds everything in it.
// Errors: InvalidArgument for what is not this kind of file, of another version, or not whole.
#ifndef NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_SEAL_H_
#define NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_SEAL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

struct FileKind {
  absl::string_view magic;  // 8 characters
  uint64_t version = 1;
  absl::string_view description;  // for messages: "bank snapshot"
};

// Where the index is, within the file.
struct FileSeal {
  static constexpr uint64_t kBytes = 40;
  uint64_t offset = 0;
  uint64_t size = 0;
};

std::string EncodeSeal(const FileKind& kind, uint64_t offset, absl::string_view index);
// From the file's first bytes: kind, version and bounds within `file_bytes`.
absl::StatusOr<FileSeal> ReadSeal(const FileKind& kind, absl::string_view head,
                                  uint64_t file_bytes);
// Whether `index` is what was sealed.
absl::Status CheckSeal(const FileKind& kind, absl::string_view head, absl::string_view index);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_FILES_FILE_SEAL_H_

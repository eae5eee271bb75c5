#include "npubank/lazy_tensor/base/files/file_seal.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/range.h"

namespace npubank {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kVersionAt = 8;
constexpr size_t kOffsetAt = 16;
constexpr size_t kSizeAt = 24;
constexpr size_t kChecksumAt = 32;

void AppendNumber(std::string& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint64_t NumberAt(absl::string_view head, size_t at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(head[at + i]);
  return value;
}

uint64_t Checksum(absl::string_view fields, absl::string_view index) {
  const uint64_t seed = XXH3_64bits(fields.data(), fields.size());
  return XXH3_64bits_withSeed(index.data(), index.size(), seed);
}

}  // namespace

std::string EncodeSeal(const FileKind& kind, uint64_t offset, absl::string_view index) {
  std::string head(kind.magic.substr(0, kMagicBytes));
  head.resize(kMagicBytes);
  AppendNumber(head, kind.version);
  AppendNumber(head, offset);
  AppendNumber(head, index.size());
  AppendNumber(head, Checksum(head, index));
  return head;
}

absl::StatusOr<FileSeal> ReadSeal(const FileKind& kind, absl::string_view head,
                                  uint64_t file_bytes) {
  if (head.size() < FileSeal::kBytes || file_bytes < FileSeal::kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a ", kind.description, ": it has only ", file_bytes, " bytes"));
  }
  if (head.substr(0, kMagicBytes) != kind.magic) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a ", kind.description, ": it does not begin with ", kind.magic));
  }
  const uint64_t version = NumberAt(head, kVersionAt);
  if (version != kind.version) {
    return absl::InvalidArgumentError(absl::StrCat(kind.description, " of version ", version,
                                                   "; this program reads version ", kind.version));
  }
  const FileSeal seal{.offset = NumberAt(head, kOffsetAt), .size = NumberAt(head, kSizeAt)};
  if (seal.offset < FileSeal::kBytes || !RangeFits(seal.offset, seal.size, file_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("corrupt ", kind.description, ": its index of ", seal.size, " bytes at ",
                     seal.offset, " does not lie within its ", file_bytes, " bytes"));
  }
  return seal;
}

absl::Status CheckSeal(const FileKind& kind, absl::string_view head, absl::string_view index) {
  if (head.size() >= FileSeal::kBytes &&
      NumberAt(head, kChecksumAt) == Checksum(head.substr(0, kChecksumAt), index)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("corrupt ", kind.description, ": its checksum does not fit its bytes"));
}

}  // namespace npubank

// RangeFits, CheckRange: whether bytes [offset, offset + length) lie within the first `size`.
//
//   if (!RangeFits(tensor.offset, tensor.bytes, file_bytes)) return Corrupt("...");
//   NPUBANK_RETURN_IF_ERROR(CheckRange("'model.safetensors'", offset, out.size(), size()));
//
// For numbers from outside: no sum of them is formed, so none overflows. An empty range fits
// anywhere up to the end. Errors of CheckRange: OutOfRange, naming what it is a range of.
#ifndef NPUBANK_LAZY_TENSOR_BASE_RANGE_H_
#define NPUBANK_LAZY_TENSOR_BASE_RANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace npubank {

constexpr bool RangeFits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

inline absl::Status CheckRange(absl::string_view of, uint64_t offset, uint64_t length,
                               uint64_t size) {
  if (RangeFits(offset, length, size)) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(of, ": ", length, " bytes at ", offset, " lie beyond its ", size, " bytes"));
}

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_RANGE_H_

#include "lazy_tensor/kernels/permute.h"

#include <cstring>

namespace npubank::kernels {
namespace {

void CopyNibble(const uint8_t* in, int64_t from, uint8_t* out, int64_t to) {
  const int nibble = in[from >> 1] >> (from & 1) * 4 & 15;
  const int shift = (to & 1) * 4;
  out[to >> 1] = static_cast<uint8_t>((out[to >> 1] & ~(15 << shift)) | nibble << shift);
}

void CopyAxis(const StridedCopy& copy, int axis, int element_bits, const uint8_t* in, int64_t from,
              uint8_t* out, int64_t to) {
  if (axis < copy.rank) {
    for (int64_t i = 0; i < copy.extent[axis]; ++i) {
      CopyAxis(copy, axis + 1, element_bits, in, from + i * copy.in_stride[axis], out,
               to + i * copy.out_stride[axis]);
    }
  } else if (element_bits == 4) {
    CopyNibble(in, from, out, to);
  } else {
    const int64_t bytes = element_bits / 8;
    std::memcpy(out + to * bytes, in + from * bytes, static_cast<size_t>(bytes));
  }
}

}  // namespace

void ReferenceCopyStrided(const StridedCopy& copy, int element_bits, const void* in, void* out) {
  CopyAxis(copy, 0, element_bits, static_cast<const uint8_t*>(in), copy.in_offset,
           static_cast<uint8_t*>(out), copy.out_offset);
}

void CopyStrided(const StridedCopy& copy, int element_bits, const void* in, void* out) {
  ReferenceCopyStrided(copy, element_bits, in, out);
}

}  // namespace npubank::kernels

// Transpose: out[c][r] = in[r][c] for a matrix of bytes, or of 2-, 4- or 8-byte elements, which may
// become another type on the way; the fast path of CopyStrided and ConvertStrided (permute.h).
//
//   Transpose({.rows = r, .columns = c, .in_pitch = 2 * c, .out_pitch = 2 * r}, 2, in, out);
//
// Pitches are bytes from one row to the next, of either sign. Strips of rows come in as long runs,
// while the next one is on its way; tiles of them are transposed in registers into a small buffer
// and leave it as whole cache lines; `out` is never read. No alignment is needed; the buffers must
// not overlap. Threads: pure.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_TRANSPOSE_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_TRANSPOSE_H_

#include <cstdint>

#include "npubank/lazy_tensor/element_type.h"

namespace npubank::kernels {

struct TransposeShape {
  int64_t rows = 0;  // of `in`
  int64_t columns = 0;
  int64_t in_pitch = 0;
  int64_t out_pitch = 0;
  bool stream = false;  // past the cache, where whole lines are written
};

void Transpose(const TransposeShape& shape, int element_bytes, const uint8_t* in, uint8_t* out);
// Elements of one type, as another; neither has four bits, and CanConvert(from, to) holds.
void TransposeConverted(const TransposeShape& shape, ElementType from, ElementType to,
                        const uint8_t* in, uint8_t* out);
// Four-bit elements, two to a byte, the first in the low nibble: even rows and columns, which are
// counted in elements; every row starts on a byte.
void TransposeNibbles(const TransposeShape& shape, const uint8_t* in, uint8_t* out);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_TRANSPOSE_H_

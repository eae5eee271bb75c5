// Packing: weights of GPTQ and AWQ checkpoints, from int32 words to plain runs of U4, or of GPTQ's U8.
//
// Both keep eight weights in a little-endian int32, nibble 0 in the lowest bits; GPTQ of eight bits four,
// byte by byte.
//
// GPTQ (K is the input axis):
// - qweight int32 [K/8, N]: nibble i of word (r, n) is weight (8 r + i, n).
//   To U4 [K, N], one row of words to rows: GptqRows(words, columns, 0, 8, out, columns / 2).
//   To U4 [N, K]: the words of a column, one after the other, are already in order, so this is a
//   transpose of 32-bit elements (CopyStrided, permute.h).
// - qzeros int32 [G, N/8]: nibble i of word (g, w) is the zero point of column 8 w + i, so they are
//   plain U4 [G, N]. Version 1 of the format stores one less, modulo 16: GptqZeros gives the points.
//
// Of eight bits they are int32 [K/4, N] and [G, N/4], and zero points one less modulo 256: GptqByteRows,
// GptqByteZeros.
//
// AWQ:
// - qweight int32 [K, N/8] and qzeros int32 [G, N/8]: nibble i of word w is column
//   8 w + {0, 2, 4, 6, 1, 3, 5, 7}[i]. AwqToU4 puts them in order: U4 [K, N] and [G, N]; transpose
//   that with CopyStrided for U4 [N, K].
//
// compressed-tensors, "pack-quantized": weight_packed int32 [N, K b / 32], the rows in order, lowest bits
// first, each number 2^(b-1) too large: U4 or U8 [N, K] as it lies.
//
// Layouts as the public AutoGPTQ (github.com/AutoGPTQ/AutoGPTQ) and AutoAWQ
// (github.com/casper-hansen/AutoAWQ) write them.
//
// Sizes in `words` count words. Buffers need no alignment and must not overlap; `out` is only
// written. Threads: pure functions. Each kernel has its plain loop beside it.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_PACKING_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_PACKING_H_

#include <cstddef>

namespace npubank::kernels {

// Rows [first, first + rows) of the eight that a row of `columns` words holds, each to `columns`
// nibbles, `out_pitch` bytes apart. `columns` may be odd: the last nibble of a row is then written
// with a zero beside it. first + rows <= 8.
void GptqRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
              size_t out_pitch);
void ReferenceGptqRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
                       size_t out_pitch);

// 8 * words zero points of a version 1 checkpoint: each nibble plus one, modulo 16.
void GptqZeros(const void* in, size_t words, void* out);
void ReferenceGptqZeros(const void* in, size_t words, void* out);

// Rows [first, first + rows) of the four that a row of words of bytes holds, each to `columns` bytes.
void GptqByteRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
                  size_t out_pitch);
void ReferenceGptqByteRows(const void* words, size_t columns, size_t first, size_t rows, void* out,
                           size_t out_pitch);

// 4 * words zero points: each byte plus one, modulo 256.
void GptqByteZeros(const void* in, size_t words, void* out);
void ReferenceGptqByteZeros(const void* in, size_t words, void* out);

// 8 * words nibbles into the order of their columns.
void AwqToU4(const void* in, size_t words, void* out);
void ReferenceAwqToU4(const void* in, size_t words, void* out);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_PACKING_H_

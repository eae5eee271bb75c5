// CopyStrided: a box of elements from any strided layout into dense or strided memory; a transpose
// when the fast axes differ.
//
//   // out[c][r] = in[r][c], two-byte elements
//   StridedCopy copy{.rank = 2, .extent = {cols, rows}, .in_stride = {1, cols},
//                    .out_stride = {rows, 1}};
//   CopyStrided(copy, /*element_bits=*/16, in, out);
//
//   // the same, BF16 to F16
//   ConvertStrided(copy, ElementType::kBF16, in, ElementType::kF16, out);
//
// Strides and extents count elements; for four-bit elements `in` and `out` point at the byte that
// holds element 0 and `in_offset` / `out_offset` count nibbles from there. Element sizes: 4, 8, 16,
// 32, 64 bits. Axes of extent 1 are ignored and mergeable axes merged, so callers need not
// simplify. Where one axis is contiguous in both it is a run of memcpy or Convert; otherwise blocks
// are transposed in registers, and converted on the way there. Buffers need no alignment and must not
// overlap. Threads: pure.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_PERMUTE_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_PERMUTE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "npubank/lazy_tensor/element_type.h"

namespace npubank::kernels {

struct StridedCopy {
  static constexpr int kMaxRank = 8;
  int rank = 0;
  std::array<int64_t, kMaxRank> extent = {};
  std::array<int64_t, kMaxRank> in_stride = {};
  std::array<int64_t, kMaxRank> out_stride = {};
  int64_t in_offset = 0;
  int64_t out_offset = 0;
  // Write past the cache: for memory that is larger than it, or not read soon.
  bool stream = false;
};

void CopyStrided(const StridedCopy& copy, int element_bits, const void* in, void* out);
void ReferenceCopyStrided(const StridedCopy& copy, int element_bits, const void* in, void* out);

// Elements of one type as another, by the rules of convert.h. Requires CanConvert(from, to), and
// neither may have four bits.
void ConvertStrided(const StridedCopy& copy, ElementType from, const void* in, ElementType to,
                    void* out);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_PERMUTE_H_

// Blocks: the weight formats of GGUF files, decoded.
//
//   std::optional<BlockFormat> format = BlockFormatFromNumber(12);            // Q4_K
//   const size_t blocks = columns / BlockLength(*format);                     // 256 weights each
//   // `row` holds blocks * BlockBytes(*format) bytes.
//   DequantizeBlocks(*format, row, ElementType::kF16, out, blocks);
//
// A block is a run of 32 or 256 weights of one row: small integers, packed, with a scale d (F16)
// and in the 256-weight formats a scale, and sometimes a minimum, for each 16 or 32 of them.
// - Q4_0 Q5_0 Q8_0 IQ4_NL: weight = d * q.       Q4_1 Q5_1: weight = d * q + m.
// - Q3_K Q6_K: weight = (d * scale) * q.         Q2_K Q4_K Q5_K: (d * scale) * q - (dmin *
// minimum). All in F32, each operation rounded apart, then rounded into the output type by the
// rules of convert.h: the same bits on every instruction set.
//
// Source of the layouts: the public GGUF and ggml format (ggml.h, ggml-common.h, ggml-quants.c of
// github.com/ggml-org/ggml), whose type numbers BlockFormat keeps. Where the bits lie is said at
// each reader in blocks.cc.
//
// Results: F32 F16 BF16. Buffers need no alignment and must not overlap; `out` is only written,
// front to back. Threads: pure functions.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_BLOCKS_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "npubank/lazy_tensor/element_type.h"

namespace npubank::kernels {

// Written to files, as GGUF does: never reuse a number.
enum class BlockFormat : uint32_t {
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
};

// The format with this ggml type number, for readers of files.
std::optional<BlockFormat> BlockFormatFromNumber(uint32_t number);
// "Q4_K"
const char* BlockFormatName(BlockFormat format);
// Weights in a block, and the bytes it takes.
size_t BlockLength(BlockFormat format);
uint64_t BlockBytes(BlockFormat format);

bool CanDequantizeBlocks(ElementType to);
// Requires CanDequantizeBlocks(to). With `stream`, F16 that starts on a cache line is written past the
// cache: for memory that is larger than it, or not read soon.
void DequantizeBlocks(BlockFormat format, const void* in, ElementType to, void* out, size_t blocks,
                      bool stream = false);
void ReferenceDequantizeBlocks(BlockFormat format, const void* in, ElementType to, void* out,
                               size_t blocks);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_BLOCKS_H_

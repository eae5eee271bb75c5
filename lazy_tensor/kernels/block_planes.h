// Block planes: the numbers, scales and minima of GGUF blocks, each kind by itself.
//
//   std::optional<BlockPlaneShape> shape = ShapeOf(BlockFormat::kQ4_0, BlockPlane::kNumbers);
//   // 32 numbers of I4 from each block: 16 bytes.
//   CopyBlockPlane(BlockFormat::kQ4_0, BlockPlane::kNumbers, in, out, blocks);
//
// Formats whose parts are planes that hold each exactly (blocks.h says what the bits are):
//   Q4_0  I4 numbers, less 8 as the format means them; F16 scales
//   Q4_1  U4 numbers; F16 scales and minima
//   Q8_0  I8 numbers; F16 scales
// The others have numbers of five and six bits, or scales of scales.
//
// Buffers need no alignment and must not overlap; `out` is only written, front to back. Threads: pure
// functions. Plain loops, a word of eight bytes at a time.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_BLOCK_PLANES_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_BLOCK_PLANES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/kernels/blocks.h"

namespace npubank::kernels {

// Written to files: never reuse a number.
enum class BlockPlane : uint8_t { kNumbers = 0, kScale = 1, kMin = 2 };

// What one block puts into a plane.
struct BlockPlaneShape {
  ElementType element;
  size_t count;
};
// nullopt when the format has no such plane.
std::optional<BlockPlaneShape> ShapeOf(BlockFormat format, BlockPlane plane);
const char* BlockPlaneName(BlockPlane plane);  // "numbers"

// Requires ShapeOf(format, plane).
void CopyBlockPlane(BlockFormat format, BlockPlane plane, const void* in, void* out, size_t blocks);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_BLOCK_PLANES_H_

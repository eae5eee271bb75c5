#include "npubank/lazy_tensor/kernels/block_planes.h"

#include <cstring>

namespace npubank::kernels {
namespace {

constexpr size_t kHalf = 2;  // bytes of an F16

// Where a block's numbers begin, after its scale and perhaps its minimum.
size_t NumbersAt(BlockFormat format) {
  return format == BlockFormat::kQ4_1 ? 2 * kHalf : kHalf;
}

// The low nibble of each of eight bytes, two to a byte.
uint32_t LowNibbles(uint64_t bytes) {
  bytes &= 0x0F0F0F0F0F0F0F0F;
  bytes = (bytes | bytes >> 4) & 0x00FF00FF00FF00FF;
  bytes = (bytes | bytes >> 8) & 0x0000FFFF0000FFFF;
  return static_cast<uint32_t>(bytes | bytes >> 16);
}

// 16 bytes that hold number i in the low and number 16 + i in the high nibble of byte i. `flip` turns
// a number q into the two's complement of q - 8, or leaves it.
void CopyNibbles(const uint8_t* in, uint32_t flip, uint8_t* out) {
  for (size_t i = 0; i < 2; ++i) {
    uint64_t bytes;  // little-endian
    std::memcpy(&bytes, in + 8 * i, 8);
    const uint32_t low = LowNibbles(bytes) ^ flip;
    const uint32_t high = LowNibbles(bytes >> 4) ^ flip;
    std::memcpy(out + 4 * i, &low, 4);
    std::memcpy(out + 8 + 4 * i, &high, 4);
  }
}

void CopyNumbers(BlockFormat format, const uint8_t* in, uint8_t* out, size_t blocks) {
  const uint64_t bytes = BlockBytes(format);
  in += NumbersAt(format);
  for (size_t b = 0; b < blocks; ++b, in += bytes) {
    if (format == BlockFormat::kQ8_0) {
      std::memcpy(out + 32 * b, in, 32);
    } else {
      CopyNibbles(in, format == BlockFormat::kQ4_0 ? 0x88888888 : 0, out + 16 * b);
    }
  }
}

}  // namespace

std::optional<BlockPlaneShape> ShapeOf(BlockFormat format, BlockPlane plane) {
  ElementType numbers = ElementType::kI4;
  switch (format) {
    case BlockFormat::kQ4_0:
      break;
    case BlockFormat::kQ4_1:
      numbers = ElementType::kU4;
      break;
    case BlockFormat::kQ8_0:
      numbers = ElementType::kI8;
      break;
    default:
      return std::nullopt;
  }
  switch (plane) {
    case BlockPlane::kNumbers:
      return BlockPlaneShape{numbers, BlockLength(format)};
    case BlockPlane::kScale:
      return BlockPlaneShape{ElementType::kF16, 1};
    case BlockPlane::kMin:
      if (format == BlockFormat::kQ4_1) return BlockPlaneShape{ElementType::kF16, 1};
      return std::nullopt;
  }
  return std::nullopt;
}

const char* BlockPlaneName(BlockPlane plane) {
  switch (plane) {
    case BlockPlane::kNumbers:
      return "numbers";
    case BlockPlane::kScale:
      return "scales";
    case BlockPlane::kMin:
      return "minima";
  }
  return "unknown";
}

void CopyBlockPlane(BlockFormat format, BlockPlane plane, const void* in, void* out,
                    size_t blocks) {
  const auto* from = static_cast<const uint8_t*>(in);
  auto* to = static_cast<uint8_t*>(out);
  if (plane == BlockPlane::kNumbers) return CopyNumbers(format, from, to, blocks);
  if (plane == BlockPlane::kMin) from += kHalf;
  const uint64_t bytes = BlockBytes(format);
  for (size_t b = 0; b < blocks; ++b) std::memcpy(to + kHalf * b, from + bytes * b, kHalf);
}

}  // namespace npubank::kernels

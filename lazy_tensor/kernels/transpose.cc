// Transpose, compiled once per instruction set.

#include "lazy_tensor/kernels/transpose.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lazy_tensor/kernels/transpose.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A tile is this many bytes in either direction: two cache lines of every row it reads and writes.
constexpr int64_t kTileBytes = 128;
// Tiles are visited in squares of this many, so that the pages in use at a time stay within the
// TLB.
constexpr int64_t kTilesPerSquare = 8;

template <typename T>
constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T));

// Lines of a tile once transposed; the last one may be shorter than the others.
template <typename T>
using Turned = T[kTile<T>][kTile<T>];

#if HWY_TARGET == HWY_SCALAR

template <typename T>
constexpr int64_t kBlock = 1;

template <typename T>
void TransposeBlock(const uint8_t* in, int64_t, T* out) {
  std::memcpy(out, in, sizeof(T));
}

#else

// The elements of one 16-byte register.
template <typename T>
constexpr int64_t kBlock = 16 / static_cast<int64_t>(sizeof(T));

// A square of registers. Interleaving row i with row i + n/2 as if dealing cards, log2(n) times, is
// a transpose.
template <typename T>
HWY_INLINE void TransposeBlock(const uint8_t* in, int64_t in_pitch, T* out) {
  constexpr int64_t kRows = kBlock<T>;
  const hn::FixedTag<T, kRows> d;
  const hn::FixedTag<uint8_t, 16> d8;
  hn::Vec<decltype(d)> rows[kRows];
  for (int64_t i = 0; i < kRows; ++i) rows[i] = hn::BitCast(d, hn::LoadU(d8, in + i * in_pitch));
  for (int64_t round = 1; round < kRows; round *= 2) {
    hn::Vec<decltype(d)> dealt[kRows];
    for (int64_t i = 0; i < kRows / 2; ++i) {
      dealt[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + kRows / 2]);
      dealt[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + kRows / 2]);
    }
    for (int64_t i = 0; i < kRows; ++i) rows[i] = dealt[i];
  }
  for (int64_t i = 0; i < kRows; ++i) hn::StoreU(rows[i], d, out + i * kTile<T>);
}

#endif

template <typename T>
void TurnTile(const uint8_t* in, int64_t in_pitch, int64_t rows, int64_t columns,
              Turned<T>& turned) {
  const int64_t whole_rows = rows - rows % kBlock<T>;
  const int64_t whole_columns = columns - columns % kBlock<T>;
  for (int64_t r = 0; r < whole_rows; r += kBlock<T>) {
    for (int64_t c = 0; c < whole_columns; c += kBlock<T>) {
      TransposeBlock<T>(in + r * in_pitch + c * static_cast<int64_t>(sizeof(T)), in_pitch,
                        &turned[c][r]);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      std::memcpy(&turned[c][r], in + r * in_pitch + c * static_cast<int64_t>(sizeof(T)),
                  sizeof(T));
    }
  }
}

template <typename T>
void TransposeTile(const TransposeShape& shape, int64_t row, int64_t column, const uint8_t* in,
                   uint8_t* out) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  const int64_t rows = std::min(kTile<T>, shape.rows - row);
  const int64_t columns = std::min(kTile<T>, shape.columns - column);
  alignas(64) Turned<T> turned;
  TurnTile<T>(in + row * shape.in_pitch + column * kSize, shape.in_pitch, rows, columns, turned);
  uint8_t* to = out + column * shape.out_pitch + row * kSize;
  for (int64_t c = 0; c < columns; ++c, to += shape.out_pitch) {
    if (rows == kTile<T>) {
      std::memcpy(to, turned[c], kTileBytes);
    } else {
      std::memcpy(to, turned[c], static_cast<size_t>(rows * kSize));
    }
  }
}

template <typename T>
void TransposeAll(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  constexpr int64_t kSquare = kTilesPerSquare * kTile<T>;
  for (int64_t row = 0; row < shape.rows; row += kSquare) {
    for (int64_t column = 0; column < shape.columns; column += kSquare) {
      const int64_t row_end = std::min(row + kSquare, shape.rows);
      const int64_t column_end = std::min(column + kSquare, shape.columns);
      for (int64_t c = column; c < column_end; c += kTile<T>) {
        for (int64_t r = row; r < row_end; r += kTile<T>) {
          TransposeTile<T>(shape, r, c, in, out);
        }
      }
    }
  }
}

// A byte of a turned line holds two columns of one row. Neighbouring bytes hold neighbouring rows,
// so the low nibbles of a line make one line of the output and the high nibbles the next.
void PackTurned(const uint8_t* line, int64_t rows, uint8_t* low, uint8_t* high) {
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const hn::Repartition<uint8_t, decltype(d16)> wide8;
  const auto nibble = hn::Set(d16, 0x000F);
  const auto upper = hn::Set(d16, 0x00F0);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide8));
  for (; r + lanes <= rows; r += lanes) {
    const auto pair = hn::BitCast(d16, hn::LoadU(wide8, line + r));
    const auto shifted = hn::ShiftRight<4>(pair);
    const auto lows = hn::Or(hn::And(pair, nibble), hn::And(shifted, upper));
    const auto highs = hn::Or(hn::And(shifted, nibble), hn::And(hn::ShiftRight<8>(pair), upper));
    hn::StoreU(hn::DemoteTo(d8, lows), d8, low + r / 2);
    hn::StoreU(hn::DemoteTo(d8, highs), d8, high + r / 2);
  }
#endif
  for (; r < rows; r += 2) {
    low[r / 2] = static_cast<uint8_t>((line[r] & 15) | line[r + 1] << 4);
    high[r / 2] = static_cast<uint8_t>(line[r] >> 4 | (line[r + 1] & 0xF0));
  }
}

void TransposePairs(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  constexpr int64_t kBytes = kTile<uint8_t>;
  alignas(64) Turned<uint8_t> turned;
  for (int64_t column = 0; column < shape.columns; column += 2 * kBytes) {
    for (int64_t row = 0; row < shape.rows; row += kBytes) {
      const int64_t rows = std::min(kBytes, shape.rows - row);
      const int64_t pairs = std::min(kBytes, (shape.columns - column) / 2);
      TurnTile<uint8_t>(in + row * shape.in_pitch + column / 2, shape.in_pitch, rows, pairs,
                        turned);
      uint8_t* to = out + column * shape.out_pitch + row / 2;
      for (int64_t pair = 0; pair < pairs; ++pair, to += 2 * shape.out_pitch) {
        PackTurned(turned[pair], rows, to, to + shape.out_pitch);
      }
    }
  }
}

void TransposeSized(const TransposeShape& shape, int element_bytes, const uint8_t* in,
                    uint8_t* out) {
  switch (element_bytes) {
    case 1:
      return TransposeAll<uint8_t>(shape, in, out);
    case 2:
      return TransposeAll<uint16_t>(shape, in, out);
    case 4:
      return TransposeAll<uint32_t>(shape, in, out);
    default:
      return TransposeAll<uint64_t>(shape, in, out);
  }
}

}  // namespace npubank::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::kernels {
namespace {

HWY_EXPORT(TransposeSized);
HWY_EXPORT(TransposePairs);

}  // namespace

void Transpose(const TransposeShape& shape, int element_bytes, const uint8_t* in, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(TransposeSized)(shape, element_bytes, in, out);
}

void TransposeNibbles(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(TransposePairs)(shape, in, out);
}

}  // namespace npubank::kernels
#endif

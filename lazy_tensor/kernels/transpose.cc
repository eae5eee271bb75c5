// Transpose, compiled once per instruction set.

#include "lazy_tensor/kernels/transpose.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lazy_tensor/kernels/transpose.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A tile is this many bytes in either direction: two cache lines of every row it reads and writes.
constexpr int64_t kTileBytes = 128;
// Tiles are visited in squares of this many, so that the pages in use at a time stay within the
// TLB.
constexpr int64_t kTilesPerSquare = 16;
// An output of at least this size would not stay in the cache: it is written past it.
constexpr int64_t kStreamedBytes = int64_t{1} << 20;
constexpr int64_t kLine = 64;

template <typename T>
constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T));

// The lines of a tile, before and after: of bytes in and of elements out.
template <typename T>
using Staged = uint8_t[kTile<T>][kTileBytes];
template <typename T>
using Turned = T[kTile<T>][kTile<T>];

// Whole lines come in at once: rows a power of two apart would push each other out of the cache if
// they were read a few columns at a time.
template <typename T>
void StageTile(const uint8_t* in, int64_t in_pitch, int64_t rows, int64_t bytes,
               Staged<T>& staged) {
  for (int64_t r = 0; r < rows; ++r, in += in_pitch) {
    if (bytes == kTileBytes) {
      std::memcpy(staged[r], in, kTileBytes);
    } else {
      std::memcpy(staged[r], in, static_cast<size_t>(bytes));
    }
  }
}

// The lines of a tile that is about to be staged.
template <typename T>
void PrefetchTile(const uint8_t* in, int64_t in_pitch) {
  for (int64_t r = 0; r < kTile<T>; ++r, in += in_pitch) {
    for (int64_t line = 0; line < kTileBytes; line += kLine) __builtin_prefetch(in + line, 0, 1);
  }
}

// `count` lines of `bytes`, which lie `pitch` apart, to rows of the output.
HWY_INLINE void WriteLines(const uint8_t* lines, int64_t pitch, int64_t count, int64_t bytes,
                           bool stream, uint8_t* out, int64_t out_pitch) {
  const hn::ScalableTag<uint8_t> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d8));
  const uintptr_t odd = reinterpret_cast<uintptr_t>(out) | static_cast<uintptr_t>(out_pitch) |
                        static_cast<uintptr_t>(bytes);
  const bool whole = odd % kLine == 0;
  for (int64_t i = 0; i < count; ++i, lines += pitch, out += out_pitch) {
    if (stream && whole) {
      for (int64_t b = 0; b < bytes; b += lanes) hn::Stream(hn::Load(d8, lines + b), d8, out + b);
    } else {
      std::memcpy(out, lines, static_cast<size_t>(bytes));
    }
  }
}

#if HWY_TARGET != HWY_SCALAR

// The elements of 16 bytes: so many columns, and so many rows for each 16 bytes of a vector.
template <typename T>
constexpr int64_t kBlock = 16 / static_cast<int64_t>(sizeof(T));

// A vector whose 16-byte blocks lie `stride` bytes apart.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const uint8_t* in, int64_t stride) {
  constexpr int64_t kBlocks = static_cast<int64_t>(hn::MaxLanes(D())) / 16;
  if constexpr (kBlocks == 1) {
    return hn::LoadU(d, in);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, in + kBlocks / 2 * stride, stride),
                       LoadBlocks(half, in, stride));
  }
}

// kBlock columns of as many rows as make a vector of each column. Dealing the rows like cards, row
// i and row i + n/2 by turns, log2(n) times, is a transpose of every 16-byte block.
template <typename T, class D8>
HWY_INLINE void TransposeBlock(D8 d8, const uint8_t* in, int64_t in_pitch, T* out) {
  constexpr int64_t kRows = kBlock<T>;
  const hn::Repartition<T, D8> d;
  using V = hn::Vec<decltype(d)>;
  V rows[kRows];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kRows; ++i) {
    rows[i] = hn::BitCast(d, LoadBlocks(d8, in + i * in_pitch, kRows * in_pitch));
  }
#pragma GCC unroll 4
  for (int64_t round = 1; round < kRows; round *= 2) {
    V dealt[kRows];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kRows / 2; ++i) {
      dealt[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + kRows / 2]);
      dealt[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + kRows / 2]);
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < kRows; ++i) rows[i] = dealt[i];
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kRows; ++i) hn::StoreU(rows[i], d, out + i * kTile<T>);
}

// The rows from `first` on that fill vectors of D8, in all whole blocks of columns; the next row.
template <typename T, class D8>
HWY_INLINE int64_t TurnRows(D8 d8, const uint8_t* in, int64_t in_pitch, int64_t first, int64_t rows,
                            int64_t whole_columns, Turned<T>& turned) {
  constexpr int64_t kStep =
      static_cast<int64_t>(hn::MaxLanes(D8())) / static_cast<int64_t>(sizeof(T));
  int64_t r = first;
  for (; r + kStep <= rows; r += kStep) {
    for (int64_t c = 0; c < whole_columns; c += kBlock<T>) {
      TransposeBlock<T>(d8, in + r * in_pitch + c * static_cast<int64_t>(sizeof(T)), in_pitch,
                        &turned[c][r]);
    }
  }
  return r;
}

#endif

template <typename T>
void TurnTile(const uint8_t* in, int64_t in_pitch, int64_t rows, int64_t columns,
              Turned<T>& turned) {
  int64_t whole_rows = 0;
  int64_t whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_columns = columns - columns % kBlock<T>;
  const hn::ScalableTag<uint8_t> wide;
  const hn::FixedTag<uint8_t, 16> narrow;
  whole_rows = TurnRows<T>(wide, in, in_pitch, 0, rows, whole_columns, turned);
  whole_rows = TurnRows<T>(narrow, in, in_pitch, whole_rows, rows, whole_columns, turned);
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      std::memcpy(&turned[c][r], in + r * in_pitch + c * static_cast<int64_t>(sizeof(T)),
                  sizeof(T));
    }
  }
}

template <typename T>
void TransposeTile(const TransposeShape& shape, int64_t row, int64_t column, bool stream,
                   const uint8_t* in, uint8_t* out) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  const int64_t rows = std::min(kTile<T>, shape.rows - row);
  const int64_t columns = std::min(kTile<T>, shape.columns - column);
  alignas(kLine) Staged<T> staged;
  alignas(kLine) Turned<T> turned;
  StageTile<T>(in + row * shape.in_pitch + column * kSize, shape.in_pitch, rows, columns * kSize,
               staged);
  TurnTile<T>(staged[0], kTileBytes, rows, columns, turned);
  WriteLines(reinterpret_cast<const uint8_t*>(turned), kTileBytes, columns, rows * kSize, stream,
             out + column * shape.out_pitch + row * kSize, shape.out_pitch);
}

// Calls tile(row, column) for every tile, down the columns of square after square.
template <typename Tile>
void ForTiles(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns,
              const Tile& tile) {
  const int64_t square_rows = kTilesPerSquare * tile_rows;
  const int64_t square_columns = kTilesPerSquare * tile_columns;
  for (int64_t row = 0; row < rows; row += square_rows) {
    for (int64_t column = 0; column < columns; column += square_columns) {
      const int64_t row_end = std::min(row + square_rows, rows);
      const int64_t column_end = std::min(column + square_columns, columns);
      for (int64_t c = column; c < column_end; c += tile_columns) {
        for (int64_t r = row; r < row_end; r += tile_rows) tile(r, c);
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

// Nibbles: a tile of bytes is a tile of two columns each.
void TransposePairs(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  constexpr int64_t kRows = kTile<uint8_t>;
  const bool stream = shape.rows * shape.columns / 2 >= kStreamedBytes;
  ForTiles(
      shape.rows, shape.columns / 2, kRows, kTileBytes, [&](int64_t row, int64_t pair) HWY_ATTR {
        const int64_t rows = std::min(kRows, shape.rows - row);
        const int64_t pairs = std::min(kTileBytes, shape.columns / 2 - pair);
        alignas(kLine) Staged<uint8_t> staged;
        alignas(kLine) Turned<uint8_t> turned;
        alignas(kLine) uint8_t packed[2 * kTileBytes][kRows / 2];
        StageTile<uint8_t>(in + row * shape.in_pitch + pair, shape.in_pitch, rows, pairs, staged);
        TurnTile<uint8_t>(staged[0], kTileBytes, rows, pairs, turned);
        for (int64_t p = 0; p < pairs; ++p) {
          PackTurned(turned[p], rows, packed[2 * p], packed[2 * p + 1]);
        }
        WriteLines(packed[0], kRows / 2, 2 * pairs, rows / 2, stream,
                   out + 2 * pair * shape.out_pitch + row / 2, shape.out_pitch);
      });
}

template <typename T>
void TransposeAll(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  const bool stream = shape.rows * shape.columns * kSize >= kStreamedBytes;
  ForTiles(
      shape.rows, shape.columns, kTile<T>, kTile<T>, [&](int64_t row, int64_t column) HWY_ATTR {
        if (row + 2 * kTile<T> <= shape.rows && column + kTile<T> <= shape.columns) {
          PrefetchTile<T>(in + (row + kTile<T>)*shape.in_pitch + column * kSize, shape.in_pitch);
        }
        TransposeTile<T>(shape, row, column, stream, in, out);
      });
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
  hwy::FlushStream();
}

void TransposeNibbles(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(TransposePairs)(shape, in, out);
  hwy::FlushStream();
}

}  // namespace npubank::kernels
#endif

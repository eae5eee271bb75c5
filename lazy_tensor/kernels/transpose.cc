// Transpose, compiled once per instruction set.

#include "npubank/lazy_tensor/kernels/transpose.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "npubank/lazy_tensor/kernels/convert.h"

#ifndef NPUBANK_LAZY_TENSOR_KERNELS_TRANSPOSE_ELEMENTS_
#define NPUBANK_LAZY_TENSOR_KERNELS_TRANSPOSE_ELEMENTS_
namespace npubank::kernels {

// What the elements are before and after; the same where they do not change.
struct Elements {
  ElementType from = ElementType::kU8;
  ElementType to = ElementType::kU8;
  int64_t in_bytes = 1;  // of each
};

}  // namespace npubank::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/lazy_tensor/kernels/transpose.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A tile is this many bytes in either direction: two cache lines of every row it reads and writes.
constexpr int64_t kTileBytes = 128;
// Tiles of one row of tiles come in together, as a strip: reading 128 bytes here and there takes
// twice as long as reading 512.
constexpr int64_t kStripTiles = 4;
constexpr int64_t kStripBytes = kStripTiles * kTileBytes;
// Strips are visited in squares of this many down and this many along, so that the pages in use at a
// time stay within the TLB.
constexpr int64_t kSquareDown = 8;
constexpr int64_t kSquareAlong = 4;
constexpr int64_t kLine = 64;

template <typename T>
constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T));

// Lines of the next strip per block that is transposed: a strip has 64 blocks where vectors are longest.
template <typename T>
constexpr int64_t kLinesAhead = kTile<T>* kStripBytes / kLine / 64;

// The lines of a strip as they come in, and of a tile as they go out.
template <typename T>
using Staged = uint8_t[kTile<T>][kStripBytes];
template <typename T>
using Transposed = T[kTile<T>][kTile<T>];

// Rows come in at once: rows a power of two apart would push each other out of the cache if they
// were read a few columns at a time.
template <typename T>
void StageStrip(const Elements& elements, const uint8_t* in, int64_t in_pitch, int64_t rows,
                int64_t columns, Staged<T>& staged) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  for (int64_t r = 0; r < rows; ++r, in += in_pitch) {
    if (elements.from != elements.to) {
      Convert(elements.from, in, elements.to, staged[r], static_cast<size_t>(columns));
    } else if (columns * kSize == kStripBytes) {
      std::memcpy(staged[r], in, kStripBytes);
    } else {
      std::memcpy(staged[r], in, static_cast<size_t>(columns * kSize));
    }
  }
}

// The strip that will be staged next. Its lines are asked for a few at a time while this one is
// transposed, so that neither waits for the other.
class Ahead {
 public:
  Ahead() = default;
  Ahead(const uint8_t* in, int64_t in_pitch, int64_t rows, int64_t bytes)
      : row_(in), in_pitch_(in_pitch), rows_(rows), bytes_(bytes) {}

  HWY_INLINE void Ask(int64_t lines) {
    for (int64_t i = 0; i < lines && rows_ > 0; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += kLine;
      if (at_ < bytes_) continue;
      at_ = 0;
      row_ += in_pitch_;
      --rows_;
    }
  }

 private:
  const uint8_t* row_ = nullptr;
  int64_t in_pitch_ = 0;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
  int64_t at_ = 0;
};

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
HWY_INLINE int64_t TransposeRows(D8 d8, const uint8_t* in, int64_t in_pitch, int64_t first,
                                 int64_t rows, int64_t whole_columns, Ahead& ahead,
                                 Transposed<T>& transposed) {
  constexpr int64_t kStep =
      static_cast<int64_t>(hn::MaxLanes(D8())) / static_cast<int64_t>(sizeof(T));
  int64_t r = first;
  for (; r + kStep <= rows; r += kStep) {
    for (int64_t c = 0; c < whole_columns; c += kBlock<T>) {
      TransposeBlock<T>(d8, in + r * in_pitch + c * static_cast<int64_t>(sizeof(T)), in_pitch,
                        &transposed[c][r]);
      ahead.Ask(kLinesAhead<T>);
    }
  }
  return r;
}

#endif

template <typename T>
void TransposeTile(const uint8_t* in, int64_t in_pitch, int64_t rows, int64_t columns,
                   [[maybe_unused]] Ahead& ahead, Transposed<T>& transposed) {
  int64_t whole_rows = 0;
  int64_t whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_columns = columns - columns % kBlock<T>;
  const hn::ScalableTag<uint8_t> wide;
  const hn::FixedTag<uint8_t, 16> narrow;
  whole_rows = TransposeRows<T>(wide, in, in_pitch, 0, rows, whole_columns, ahead, transposed);
  whole_rows =
      TransposeRows<T>(narrow, in, in_pitch, whole_rows, rows, whole_columns, ahead, transposed);
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      std::memcpy(&transposed[c][r], in + r * in_pitch + c * static_cast<int64_t>(sizeof(T)),
                  sizeof(T));
    }
  }
}

// Where a strip begins; beyond the matrix: nowhere.
struct Corner {
  int64_t row = 0;
  int64_t column = 0;
};

template <typename T>
void TransposeStrip(const TransposeShape& shape, const Elements& elements, Corner corner,
                    Corner next, const uint8_t* in, uint8_t* out) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kColumns = kStripTiles * kTile<T>;
  const auto at = [&](Corner c) {
    return in + c.row * shape.in_pitch + c.column * elements.in_bytes;
  };
  const int64_t rows = std::min(kTile<T>, shape.rows - corner.row);
  const int64_t columns = std::min(kColumns, shape.columns - corner.column);
  const bool whole_next =
      next.row + kTile<T> <= shape.rows && next.column + kColumns <= shape.columns;
  alignas(kLine) Staged<T> staged;
  alignas(kLine) Transposed<T> transposed;
  StageStrip<T>(elements, at(corner), shape.in_pitch, rows, columns, staged);
  Ahead ahead;
  if (whole_next) ahead = Ahead(at(next), shape.in_pitch, kTile<T>, kColumns * elements.in_bytes);
  for (int64_t part = 0; part * kTile<T> < columns; ++part) {
    const int64_t first = part * kTile<T>;
    const int64_t count = std::min(kTile<T>, columns - first);
    TransposeTile<T>(staged[0] + first * kSize, kStripBytes, rows, count, ahead, transposed);
    WriteLines(reinterpret_cast<const uint8_t*>(transposed), kTileBytes, count, rows * kSize,
               shape.stream, out + (corner.column + first) * shape.out_pitch + corner.row * kSize,
               shape.out_pitch);
  }
}

// Calls strip(corner, next) for every strip of `down` by `along` elements, down the columns of square
// after square.
template <typename Strip>
void ForStrips(int64_t rows, int64_t columns, int64_t down, int64_t along, const Strip& strip) {
  const Corner nowhere = {rows, columns};
  Corner last = nowhere;
  const auto visit = [&](Corner corner) HWY_ATTR {
    if (last.row < rows) strip(last, corner);
    last = corner;
  };
  for (int64_t row = 0; row < rows; row += kSquareDown * down) {
    for (int64_t column = 0; column < columns; column += kSquareAlong * along) {
      const int64_t row_end = std::min(row + kSquareDown * down, rows);
      const int64_t column_end = std::min(column + kSquareAlong * along, columns);
      for (int64_t c = column; c < column_end; c += along) {
        for (int64_t r = row; r < row_end; r += down) visit({r, c});
      }
    }
  }
  visit(nowhere);
}

// A byte of a transposed line holds two columns of one row. Neighbouring bytes hold neighbouring rows,
// so the low nibbles of a line make one line of the output and the high nibbles the next.
void PackTransposed(const uint8_t* line, int64_t rows, uint8_t* low, uint8_t* high) {
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
  const Elements elements;
  const auto at = [&](Corner c) { return in + c.row * shape.in_pitch + c.column; };
  const int64_t all_pairs = shape.columns / 2;
  ForStrips(shape.rows, all_pairs, kRows, kStripBytes, [&](Corner corner, Corner next) HWY_ATTR {
    const int64_t rows = std::min(kRows, shape.rows - corner.row);
    const int64_t columns = std::min(kStripBytes, all_pairs - corner.column);
    const bool whole_next =
        next.row + kRows <= shape.rows && next.column + kStripBytes <= all_pairs;
    alignas(kLine) Staged<uint8_t> staged;
    alignas(kLine) Transposed<uint8_t> transposed;
    alignas(kLine) uint8_t packed[2 * kTileBytes][kRows / 2];
    StageStrip<uint8_t>(elements, at(corner), shape.in_pitch, rows, columns, staged);
    Ahead ahead;
    if (whole_next) ahead = Ahead(at(next), shape.in_pitch, kRows, kStripBytes);
    for (int64_t part = 0; part * kTileBytes < columns; ++part) {
      const int64_t first = part * kTileBytes;
      const int64_t pairs = std::min(kTileBytes, columns - first);
      TransposeTile<uint8_t>(staged[0] + first, kStripBytes, rows, pairs, ahead, transposed);
      for (int64_t p = 0; p < pairs; ++p) {
        PackTransposed(transposed[p], rows, packed[2 * p], packed[2 * p + 1]);
      }
      WriteLines(packed[0], kRows / 2, 2 * pairs, rows / 2, shape.stream,
                 out + 2 * (corner.column + first) * shape.out_pitch + corner.row / 2,
                 shape.out_pitch);
    }
  });
}

template <typename T>
void TransposeAll(const TransposeShape& shape, const Elements& elements, const uint8_t* in,
                  uint8_t* out) {
  ForStrips(shape.rows, shape.columns, kTile<T>, kStripTiles * kTile<T>,
            [&](Corner corner, Corner next)
                HWY_ATTR { TransposeStrip<T>(shape, elements, corner, next, in, out); });
}

void TransposeSized(const TransposeShape& shape, const Elements& elements, int64_t out_bytes,
                    const uint8_t* in, uint8_t* out) {
  switch (out_bytes) {
    case 1:
      return TransposeAll<uint8_t>(shape, elements, in, out);
    case 2:
      return TransposeAll<uint16_t>(shape, elements, in, out);
    case 4:
      return TransposeAll<uint32_t>(shape, elements, in, out);
    default:
      return TransposeAll<uint64_t>(shape, elements, in, out);
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
  const Elements elements = {.in_bytes = element_bytes};
  HWY_DYNAMIC_DISPATCH(TransposeSized)(shape, elements, element_bytes, in, out);
  hwy::FlushStream();
}

void TransposeConverted(const TransposeShape& shape, ElementType from, ElementType to,
                        const uint8_t* in, uint8_t* out) {
  const Elements elements = {.from = from, .to = to, .in_bytes = BitWidth(from) / 8};
  HWY_DYNAMIC_DISPATCH(TransposeSized)(shape, elements, BitWidth(to) / 8, in, out);
  hwy::FlushStream();
}

void TransposeNibbles(const TransposeShape& shape, const uint8_t* in, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(TransposePairs)(shape, in, out);
  hwy::FlushStream();
}

}  // namespace npubank::kernels
#endif

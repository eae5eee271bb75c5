#include "npubank/runtime/software_npu/kernels/matmul.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "npubank/runtime/software_npu/kernels/worker_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/runtime/software_npu/kernels/matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "npubank/lazy_tensor/base/align.h"
#include "npubank/runtime/software_npu/kernels/add_rows-inl.h"
#include "npubank/runtime/software_npu/kernels/dot_parts-inl.h"
#include "npubank/runtime/software_npu/kernels/load_weight-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

// Rows and columns of a tile whose sums stay in registers: 16 sums where there are 32 registers.
constexpr int kTileRows = kLanes >= 16 ? 8 : 4;
constexpr int kTileColumns = 2;

// ---- weight [columns, depth]: dot products ----

// sums[r][c] of R rows of x and C rows of w.
template <int R, int C, class Weight>
HWY_INLINE void DotTile(const float* HWY_RESTRICT x, const Weight* HWY_RESTRICT w, int64_t depth,
                        float (&sums)[R][C]) {
  const Floats d;
  hn::Vec<Floats> totals[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) totals[r][c] = hn::Zero(d);
  }
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    hn::Vec<Floats> ws[C];
    for (int c = 0; c < C; ++c) ws[c] = LoadWeight(d, w + c * depth + k);
    for (int r = 0; r < R; ++r) {
      const auto xs = hn::LoadU(d, x + r * depth + k);
      for (int c = 0; c < C; ++c) totals[r][c] = hn::MulAdd(xs, ws[c], totals[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      float rest = 0;
      for (int64_t t = k; t < depth; ++t) rest += x[r * depth + t] * LoadOne(w + c * depth + t);
      sums[r][c] = hn::GetLane(hn::SumOfLanes(d, totals[r][c])) + rest;
    }
  }
}

template <int R, int C, class Weight>
HWY_INLINE void DotTileInto(const MatMulOperands& m, const Weight* w, int64_t row, int64_t column) {
  float sums[R][C];
  DotTile<R, C>(m.x + row * m.depth, w + column * m.depth, m.depth, sums);
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      const int64_t at = (row + r) * m.columns + column + c;
      m.out[at] = m.addend != nullptr ? m.addend[at] + sums[r][c] : sums[r][c];
    }
  }
}

// All rows of C columns.
template <int C, class Weight>
HWY_INLINE void DotColumns(const MatMulOperands& m, const Weight* w, int64_t row, int64_t end,
                           int64_t column) {
  for (; row + kTileRows <= end; row += kTileRows) DotTileInto<kTileRows, C>(m, w, row, column);
  for (; row < end; ++row) DotTileInto<1, C>(m, w, row, column);
}

void DotPanel(const MatMulOperands& m, int64_t row, int64_t row_end, int64_t column,
              int64_t column_end) {
  WithWeight(m.weight, m.element, [&](const auto* w) {
    // Few rows: more columns at once, so that the additions do not wait for each other.
    constexpr int kWide = 8;
    if (row_end - row < kTileRows) {
      for (; column + kWide <= column_end; column += kWide) {
        for (int64_t r = row; r < row_end; ++r) DotTileInto<1, kWide>(m, w, r, column);
      }
    }
    for (; column + kTileColumns <= column_end; column += kTileColumns) {
      DotColumns<kTileColumns>(m, w, row, row_end, column);
    }
    for (; column < column_end; ++column) DotColumns<1>(m, w, row, row_end, column);
  });
}

// Rows of a weight in parts that are decoded at once: as many as stay in the second cache.
constexpr int64_t kPanelBytes = 128 * 1024;
constexpr int64_t kPanelRows = 8;

// One row of x and columns [column, ...) of a weight in parts, from bytes to sums; the first column that is left.
int64_t DotOneRow(const MatMulOperands& m, int64_t row, int64_t column, int64_t column_end) {
  if (!DotsInRegisters(*m.parts)) return column;
  const float* const x = m.x + row * m.depth;
  std::vector<float> room;
  float sums[kPartRows];
  while (column < column_end) {
    const int64_t count = column_end - column >= kPartRows ? kPartRows : 1;
    const bool done = count == kPartRows ? DotParts<kPartRows>(*m.parts, x, column, room, sums)
                                         : DotParts<1>(*m.parts, x, column, room, sums);
    if (!done) break;
    for (int64_t c = 0; c < count; ++c, ++column) {
      const int64_t at = row * m.columns + column;
      m.out[at] = m.addend != nullptr ? m.addend[at] + sums[c] : sums[c];
    }
  }
  return column;
}

void DotStrip(const MatMulOperands& m, int64_t row, int64_t row_end, int64_t column,
              int64_t column_end) {
  if (m.parts == nullptr) return DotPanel(m, row, row_end, column, column_end);
  if (row_end - row == 1) column = DotOneRow(m, row, column, column_end);
  const int64_t row_bytes = m.depth * static_cast<int64_t>(sizeof(float));
  const int64_t most = kPanelRows * row_bytes <= kPanelBytes ? kPanelRows : kTileColumns;
  std::vector<float> numbers(static_cast<size_t>(most * m.depth));
  for (; column < column_end; column += most) {
    const int64_t count = std::min(most, column_end - column);
    DecodeRows(*m.parts, column, count, numbers.data());
    MatMulOperands panel = m;
    panel.weight = numbers.data();
    panel.element = ElementType::kF32;
    panel.out += column;
    if (panel.addend != nullptr) panel.addend += column;
    DotPanel(panel, row, row_end, 0, count);
  }
}

// ---- weight [depth, columns]: sums of scaled weight rows ----

// Widest strip of one row: its sums stay in the first cache beside the weight that streams past.
constexpr int64_t kRowStrip = 2048;

HWY_INLINE void StoreRow(const MatMulOperands& m, int64_t row, int64_t column, int64_t width,
                         const float* sums) {
  float* const out = m.out + row * m.columns + column;
  const float* const addend = m.addend == nullptr ? nullptr : m.addend + row * m.columns + column;
  for (int64_t c = 0; c < width; ++c) out[c] = addend != nullptr ? addend[c] + sums[c] : sums[c];
}

// One row, columns [column, column_end): at most kRowStrip.
void RowStrip(const MatMulOperands& m, int64_t row, int64_t, int64_t column, int64_t column_end) {
  alignas(64) float sums[kRowStrip];
  const int64_t width = column_end - column;
  std::fill_n(sums, width, 0.0f);
  const float* const x = m.x + row * m.depth;
  if (m.parts != nullptr) {
    AddWords(m, x, column, width, sums);
  } else {
    WithWeight(m.weight, m.element, [&](const auto* w) {
      AddScaled(x, w + column, m.depth, m.columns, width, sums);
    });
  }
  StoreRow(m, row, column, width, sums);
}

// Many rows: a block of the weight is used for all of them while it is in the cache. Sums wait in
// `sums` between blocks of depth, which does not change them.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockColumns = 128;
constexpr int64_t kBlockDepth = 128;
using BlockSums = float[kBlockRows][kBlockColumns];

// sums[r][c] of R rows and kTileColumns vectors, over `depth` values of k.
template <int R, class Weight>
HWY_INLINE void AddTile(const float* HWY_RESTRICT x, int64_t x_pitch, const Weight* HWY_RESTRICT w,
                        int64_t pitch, int64_t depth, float* sums) {
  const Floats d;
  hn::Vec<Floats> totals[R][kTileColumns];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < kTileColumns; ++c) {
      totals[r][c] = hn::LoadU(d, sums + r * kBlockColumns + c * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<Floats> ws[kTileColumns];
    for (int c = 0; c < kTileColumns; ++c) ws[c] = LoadWeight(d, w + k * pitch + c * kLanes);
    for (int r = 0; r < R; ++r) {
      const auto xs = hn::Set(d, x[r * x_pitch + k]);
      for (int c = 0; c < kTileColumns; ++c) totals[r][c] = hn::MulAdd(xs, ws[c], totals[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < kTileColumns; ++c) {
      hn::StoreU(totals[r][c], d, sums + r * kBlockColumns + c * kLanes);
    }
  }
}

template <class Weight>
HWY_INLINE void AddBlock(const float* x, int64_t x_pitch, int64_t rows, const Weight* w,
                         int64_t pitch, int64_t depth, int64_t width, BlockSums& sums) {
  constexpr int64_t kWidth = kTileColumns * kLanes;
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) {
    const float* const xs = x + row * x_pitch;
    int64_t c = 0;
    for (; c + kWidth <= width; c += kWidth) {
      AddTile<kTileRows>(xs, x_pitch, w + c, pitch, depth, &sums[row][c]);
    }
    for (int64_t r = 0; c < width && r < kTileRows; ++r) {
      AddScaled(xs + r * x_pitch, w + c, depth, pitch, width - c, &sums[row + r][c]);
    }
  }
  for (; row < rows; ++row) {
    AddScaled(x + row * x_pitch, w, depth, pitch, width, sums[row]);
  }
}

void BlockStrip(const MatMulOperands& m, int64_t row, int64_t row_end, int64_t column,
                int64_t column_end) {
  alignas(64) BlockSums sums;
  const int64_t width = column_end - column;
  std::optional<WordDecoder> words;
  std::vector<float> numbers;
  if (m.parts != nullptr) {
    words.emplace(*m.parts, column, width);
    numbers.resize(static_cast<size_t>(kBlockDepth * width));
  }
  for (; row < row_end; row += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, row_end - row);
    for (int64_t r = 0; r < rows; ++r) std::fill_n(sums[r], width, 0.0f);
    for (int64_t k = 0; k < m.depth; k += kBlockDepth) {
      const float* const x = m.x + row * m.depth + k;
      const int64_t depth = std::min(kBlockDepth, m.depth - k);
      if (words.has_value()) {
        words->Decode(k, depth, numbers.data());
        AddBlock(x, m.depth, rows, numbers.data(), width, depth, width, sums);
        continue;
      }
      WithWeight(m.weight, m.element, [&](const auto* w) {
        AddBlock(x, m.depth, rows, w + k * m.columns + column, m.columns, depth, width, sums);
      });
    }
    for (int64_t r = 0; r < rows; ++r) StoreRow(m, row + r, column, width, sums[r]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::software_npu {

HWY_EXPORT(DotStrip);
HWY_EXPORT(RowStrip);
HWY_EXPORT(BlockStrip);

namespace {

// A multiple of every vector's length, so that where strips meet changes no sum.
constexpr int64_t kStripStep = 64;
constexpr int64_t kWordStripStep = 128;  // 16 words of eight
constexpr int64_t kMostRowStrip = 2048;
// Of one thread's strip, where it has all groups' scales and zero points: they stay in its second cache.
constexpr int64_t kMostGroupBytes = 256 * 1024;
constexpr int64_t kBlockStrip = 128;
constexpr int64_t kStripsPerThread = 4;
// Below this many multiplications a second thread costs more than it brings.
constexpr int64_t kWorthSharing = 1 << 15;

// How wide the strips are that threads take, in columns: whole vectors of AWQ's words where there are any.
int64_t StripWidth(const MatMulOperands& m, int64_t most) {
  const bool words = m.parts != nullptr && !m.parts->form.by_rows();
  const int64_t step = words ? kWordStripStep : kStripStep;
  if (words && m.parts->form.groups_listed()) {
    const int64_t bytes_of_column = m.parts->groups * 2 * static_cast<int64_t>(sizeof(float));
    most = std::clamp(kMostGroupBytes / bytes_of_column / step * step, step, most);
  }
  const int64_t shares = kStripsPerThread * WorkerPool::Get().threads();
  const int64_t even = (m.columns + shares - 1) / shares;
  return std::min(most, AlignUp(even, step));
}

template <class Strip>
void ForStrips(const MatMulOperands& m, int64_t width, Strip strip) {
  const int64_t strips = (m.columns + width - 1) / width;
  const auto body = [&](int64_t s) { strip(s * width, std::min(m.columns, (s + 1) * width)); };
  if (m.rows * m.depth * m.columns < kWorthSharing) {
    for (int64_t s = 0; s < strips; ++s) body(s);
    return;
  }
  WorkerPool::Get().ForEach(strips, body);
}

}  // namespace

void MatMul(const MatMulOperands& m) {
  if (m.transposed) {
    ForStrips(m, StripWidth(m, kStripStep), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(DotStrip)(m, 0, m.rows, begin, end);
    });
  } else if (m.rows == 1) {
    ForStrips(m, StripWidth(m, kMostRowStrip), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(RowStrip)(m, 0, 1, begin, end);
    });
  } else {
    ForStrips(m, StripWidth(m, kBlockStrip), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(BlockStrip)(m, 0, m.rows, begin, end);
    });
  }
}

}  // namespace npubank::software_npu
#endif  // HWY_ONCE

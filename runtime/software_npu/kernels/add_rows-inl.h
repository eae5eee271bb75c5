// Sums of scaled rows of a weight [depth, columns], of plain numbers or of GPTQ's and AWQ's words, for one row of
// x and one Highway target. Included by each file that is compiled per target.
//
// Words give bit for bit what their numbers give that are decoded first: each operation is rounded alike.
#if defined(NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ADD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ADD_ROWS_INL_H_
#undef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ADD_ROWS_INL_H_
#else
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ADD_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "npubank/runtime/software_npu/kernels/load_weight-inl.h"
#include "npubank/runtime/software_npu/kernels/matmul.h"
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

constexpr int64_t kDepthStep = 8;

// sums[0..width) += x[k] * w[k], for `Steps` values of k in order.
template <int Steps, class Weight>
HWY_INLINE void AddScaledRows(const float* HWY_RESTRICT x, const Weight* HWY_RESTRICT w,
                              int64_t pitch, int64_t width, float* HWY_RESTRICT sums) {
  const Floats d;
  hn::Vec<Floats> xs[Steps];
  for (int s = 0; s < Steps; ++s) xs[s] = hn::Set(d, x[s]);
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    auto sum = hn::LoadU(d, sums + c);
    for (int s = 0; s < Steps; ++s) {
      sum = hn::MulAdd(xs[s], LoadWeight(d, w + s * pitch + c), sum);
    }
    hn::StoreU(sum, d, sums + c);
  }
  const hn::CappedTag<float, 1> one;
  for (; c < width; ++c) {
    auto sum = hn::LoadU(one, sums + c);
    for (int s = 0; s < Steps; ++s) {
      sum = hn::MulAdd(hn::Set(one, x[s]), LoadWeight(one, w + s * pitch + c), sum);
    }
    hn::StoreU(sum, one, sums + c);
  }
}

template <class Weight>
HWY_INLINE void AddScaled(const float* x, const Weight* w, int64_t depth, int64_t pitch,
                          int64_t width, float* sums) {
  int64_t k = 0;
  for (; k + kDepthStep <= depth; k += kDepthStep) {
    AddScaledRows<kDepthStep>(x + k, w + k * pitch, pitch, width, sums);
  }
  for (; k < depth; ++k) AddScaledRows<1>(x + k, w + k * pitch, pitch, width, sums);
}

// ---- GPTQ's and AWQ's words, one row: numbers go from the words into the sums in registers ----

constexpr int64_t kNibbles = 8;  // of a word
using Words = hn::RebindToUnsigned<Floats>;

// sums[l] += x[j] * (nibble `n` of words[j][l] - zeros[l]) * scales[l] for each of the eight j in order, each
// operation rounded as where the numbers are decoded first.
template <class Nibble>
HWY_INLINE void AddNibbles(const float* HWY_RESTRICT x, const float* HWY_RESTRICT scales,
                           const float* HWY_RESTRICT zeros, float* HWY_RESTRICT sums,
                           const Nibble& nibble) {
  const Floats d;
  const hn::RebindToSigned<Floats> integers;
  const auto scale = hn::LoadU(d, scales);
  const auto zero = hn::LoadU(d, zeros);
  auto sum = hn::LoadU(d, sums);
  for (int j = 0; j < kNibbles; ++j) {
    const auto q = hn::ConvertTo(d, hn::BitCast(integers, nibble(j)));
    sum = hn::MulAdd(hn::Set(d, x[j]), hn::Mul(hn::Sub(q, zero), scale), sum);
  }
  hn::StoreU(sum, d, sums);
}

// As many values of k as a word holds, all in one row of words: number j of a column's word is that of k = j.
// scales[j] and zeros[j] are those of its group; all the same where groups are not listed.
template <int kBits, bool kListed>
HWY_INLINE void AddGptqRow(const float* x, const uint8_t* words, const float* const* scales,
                           const float* const* zeros, int64_t width, float* sums) {
  const Words d;
  const Floats df;
  const hn::RebindToSigned<Floats> integers;
  for (int64_t c = 0; c + kLanes <= width; c += kLanes) {
    const auto word = hn::LoadU(d, reinterpret_cast<const uint32_t*>(words) + c);
    auto sum = hn::LoadU(df, sums + c);
    auto scale = hn::LoadU(df, scales[0] + c);
    auto zero = hn::LoadU(df, zeros[0] + c);
    for (int j = 0; j < 32 / kBits; ++j) {
      if (kListed && j > 0) {
        scale = hn::LoadU(df, scales[j] + c);
        zero = hn::LoadU(df, zeros[j] + c);
      }
      const auto number = hn::And(hn::ShiftRightSame(word, kBits * j), hn::Set(d, (1u << kBits) - 1));
      const auto q = hn::ConvertTo(df, hn::BitCast(integers, number));
      sum = hn::MulAdd(hn::Set(df, x[j]), hn::Mul(hn::Sub(q, zero), scale), sum);
    }
    hn::StoreU(sum, df, sums + c);
  }
}

// Eight values of k, a row of words each. Sums, scales and zero points lie nibble by nibble: that of column
// 8 w + kAwqColumns[n] at n * words + w.
constexpr int kAwqColumns[kNibbles] = {0, 2, 4, 6, 1, 3, 5, 7};
HWY_INLINE void AddAwqRows(const float* x, const uint8_t* from, int64_t pitch, int64_t words,
                           const float* scales, const float* zeros, float* sums) {
  const Words d;
  for (int64_t w = 0; w + kLanes <= words; w += kLanes) {
    hn::Vec<Words> rows[kNibbles];
    for (int j = 0; j < kNibbles; ++j) {
      rows[j] = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + j * pitch) + w);
    }
    for (int n = 0; n < kNibbles; ++n) {
      const int64_t at = n * words + w;
      AddNibbles(x, scales + at, zeros + at, sums + at, [&](int j) HWY_ATTR {
        return hn::And(hn::ShiftRightSame(rows[j], 4 * n), hn::Set(d, 15));
      });
    }
  }
}

// From the order of columns into that of nibbles, or back.
inline void ByNibbles(const float* columns, int64_t words, float* nibbles) {
  for (int64_t w = 0; w < words; ++w) {
    for (int n = 0; n < kNibbles; ++n) {
      nibbles[n * words + w] = columns[w * kNibbles + kAwqColumns[n]];
    }
  }
}
inline void ByColumns(const float* nibbles, int64_t words, float* columns) {
  for (int64_t w = 0; w < words; ++w) {
    for (int n = 0; n < kNibbles; ++n) {
      columns[w * kNibbles + kAwqColumns[n]] = nibbles[n * words + w];
    }
  }
}

template <int kBits, bool kListed>
void AddGptqWords(const MatMulOperands& m, const float* x, int64_t column, int64_t width,
                  float* sums) {
  constexpr int kInWord = 32 / kBits;
  WordDecoder group(*m.parts, column, width);
  const float* scales[kInWord] = {};
  const float* zeros[kInWord] = {};
  for (int64_t k = 0; k < m.depth; k += kInWord) {
    for (int j = 0; j < (kListed ? kInWord : 1); ++j) {
      group.UseGroupOf(k + j);
      scales[j] = group.scales();
      zeros[j] = group.zeros();
    }
    AddGptqRow<kBits, kListed>(x + k, m.parts->parts[0] + (k / kInWord * m.columns + column) * 4, scales,
                               zeros, width, sums);
  }
}

inline void AddAwqWords(const MatMulOperands& m, const float* x, int64_t column, int64_t width,
                 float* sums) {
  WordDecoder group(*m.parts, column, width);
  const int64_t words = width / kNibbles;
  std::vector<float> scales(static_cast<size_t>(width));
  std::vector<float> zeros(static_cast<size_t>(width));
  std::vector<float> by_nibbles(static_cast<size_t>(width));
  for (int64_t k = 0; k < m.depth; k += kNibbles) {
    if (group.UseGroupOf(k)) {
      ByNibbles(group.scales(), words, scales.data());
      ByNibbles(group.zeros(), words, zeros.data());
    }
    AddAwqRows(x + k, m.parts->parts[0] + (k * m.columns + column) / 2, m.columns / 2, words,
               scales.data(), zeros.data(), by_nibbles.data());
  }
  ByColumns(by_nibbles.data(), words, sums);
}

// Whether the rows of a word are of one group, or each of its own, and the strip is whole vectors of words.
inline bool InRegisters(const MatMulOperands& m, int64_t width) {
  const bool awq = m.parts->form.kind() == WeightForm::Kind::kAwq;
  const int64_t rows = 32 / m.parts->form.bits();
  const bool one_group = m.depth / m.parts->groups % rows == 0;
  if (m.depth % rows != 0 || !(one_group || m.parts->form.groups_listed())) return false;
  return width % (awq ? kNibbles * kLanes : kLanes) == 0;
}

// Numbers are decoded, a few rows at a time, and then added.
inline void AddDecodedWords(const MatMulOperands& m, const float* x, int64_t column, int64_t width,
                     float* sums) {
  WordDecoder words(*m.parts, column, width);
  std::vector<float> numbers(static_cast<size_t>(kDepthStep * width));
  for (int64_t k = 0; k < m.depth; k += kDepthStep) {
    const int64_t depth = std::min(kDepthStep, m.depth - k);
    words.Decode(k, depth, numbers.data());
    AddScaled(x + k, numbers.data(), depth, width, width, sums);
  }
}

inline void AddWords(const MatMulOperands& m, const float* x, int64_t column, int64_t width, float* sums) {
  const WeightForm& form = m.parts->form;
  if (!InRegisters(m, width)) return AddDecodedWords(m, x, column, width, sums);
  if (form.kind() == WeightForm::Kind::kAwq) return AddAwqWords(m, x, column, width, sums);
  const auto add = form.bits() == 4
                       ? (form.groups_listed() ? AddGptqWords<4, true> : AddGptqWords<4, false>)
                       : (form.groups_listed() ? AddGptqWords<8, true> : AddGptqWords<8, false>);
  add(m, x, column, width, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ADD_ROWS_INL_H_

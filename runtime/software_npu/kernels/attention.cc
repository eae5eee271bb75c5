#include "npubank/runtime/software_npu/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "npubank/runtime/software_npu/kernels/worker_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/runtime/software_npu/kernels/attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

HWY_INLINE float Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t n) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  float rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

HWY_INLINE void AddScaled(const float* HWY_RESTRICT from, float scale, int64_t n,
                          float* HWY_RESTRICT to) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
  }
  for (; i < n; ++i) to[i] += scale * from[i];
}

// One row of one head.
void ScoreRow(const float* q, const float* keys, int64_t key_pitch, int64_t positions,
              int64_t head_dim, float scale, float* scores) {
  for (int64_t p = 0; p < positions; ++p) {
    scores[p] = scale * Dot(q, keys + p * key_pitch, head_dim);
  }
}

void MixRow(const float* probabilities, const float* values, int64_t value_pitch, int64_t positions,
            int64_t head_dim, float* out) {
  std::fill_n(out, head_dim, 0.0f);
  for (int64_t p = 0; p < positions; ++p) {
    AddScaled(values + p * value_pitch, probabilities[p], head_dim, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::software_npu {

HWY_EXPORT(ScoreRow);
HWY_EXPORT(MixRow);

namespace {

// Calls body(head, row) for every head and every row that counts.
template <class Body>
void ForHeadRows(const AttentionOperands& a, Body body) {
  WorkerPool::Get().ForEach(a.heads * a.count,
                            [&](int64_t piece) { body(piece / a.count, piece % a.count); });
}

// The positions that a row sees.
struct Seen {
  int64_t first;
  int64_t count;
};
Seen SeenBy(const AttentionOperands& a, int64_t row) {
  const int64_t up_to = a.start + row + 1;
  const int64_t count = a.window > 0 ? std::min(a.window, up_to) : up_to;
  return {up_to - count, count};
}

int64_t KvOffset(const AttentionOperands& a, int64_t head) {
  return (a.first_head + head) / a.heads_per_kv_head * a.head_dim;
}

}  // namespace

void AttentionScores(const AttentionOperands& a, const float* q, const float* keys, float scale,
                     float* scores) {
  ForHeadRows(a, [&](int64_t head, int64_t row) {
    const Seen seen = SeenBy(a, row);
    HWY_DYNAMIC_DISPATCH(ScoreRow)
    (q + row * a.width + (a.first_head + head) * a.head_dim,
     keys + seen.first * a.cache_width + KvOffset(a, head), a.cache_width, seen.count, a.head_dim,
     scale, scores + (head * a.rows + row) * a.positions + seen.first);
  });
}

void CausalSoftmax(const AttentionOperands& a, const float* scores, float* probabilities) {
  ForHeadRows(a, [&](int64_t head, int64_t row) {
    const Seen seen = SeenBy(a, row);
    const int64_t end = seen.first + seen.count;
    const float* const from = scores + (head * a.rows + row) * a.positions;
    float* const to = probabilities + (head * a.rows + row) * a.positions;
    const float most = *std::max_element(from + seen.first, from + end);
    float sum = 0;
    for (int64_t p = seen.first; p < end; ++p) {
      to[p] = std::exp(from[p] - most);
      sum += to[p];
    }
    for (int64_t p = seen.first; p < end; ++p) to[p] /= sum;
    std::fill_n(to, seen.first, 0.0f);
    std::fill_n(to + end, a.positions - end, 0.0f);
  });
}

void AttentionMix(const AttentionOperands& a, const float* probabilities, const float* values,
                  float* out) {
  ForHeadRows(a, [&](int64_t head, int64_t row) {
    const Seen seen = SeenBy(a, row);
    HWY_DYNAMIC_DISPATCH(MixRow)
    (probabilities + (head * a.rows + row) * a.positions + seen.first,
     values + seen.first * a.cache_width + KvOffset(a, head), a.cache_width, seen.count, a.head_dim,
     out + row * a.width + (a.first_head + head) * a.head_dim);
  });
}

}  // namespace npubank::software_npu
#endif  // HWY_ONCE

#include "npubank/runtime/software_npu/kernels/rows.h"

#include <cmath>

#include "npubank/runtime/software_npu/kernels/worker_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "npubank/runtime/software_npu/kernels/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "npubank/runtime/software_npu/kernels/load_weight-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npubank::software_npu {
namespace HWY_NAMESPACE {

// out = weights[first .. first + n) as F32, each times factors[i] and `scale` when there are any.
void ScaleWeights(const void* weights, ElementType element, int64_t first, int64_t n,
                  const float* factors, float scale, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  WithWeight(weights, element, [&](const auto* w) {
    w += first;
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      auto value = LoadWeight(d, w + i);
      if (factors != nullptr) {
        value = hn::Mul(value, hn::Mul(hn::Set(d, scale), hn::LoadU(d, factors + i)));
      }
      hn::StoreU(value, d, out + i);
    }
    for (; i < n; ++i) {
      const float value = LoadOne(w + i);
      out[i] = factors != nullptr ? value * (scale * factors[i]) : value;
    }
  });
}

// out = x plus bias as F32.
void AddWeights(const float* x, const void* bias, ElementType element, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  WithWeight(bias, element, [&](const auto* b) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, x + i), LoadWeight(d, b + i)), d, out + i);
    }
    for (; i < n; ++i) out[i] = x[i] + LoadOne(b + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace npubank::software_npu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npubank::software_npu {

HWY_EXPORT(ScaleWeights);
HWY_EXPORT(AddWeights);

bool Embed(const int32_t* ids, int64_t rows, const WeightOperand& table, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    if (ids[r] < 0 || ids[r] >= table.rows) return false;
  }
  const int64_t width = table.columns;
  WorkerPool::Get().ForEach(rows, [&](int64_t r) {
    if (!table.form.plain()) return DecodeRows(table, ids[r], 1, out + r * width);
    HWY_DYNAMIC_DISPATCH(ScaleWeights)
    (table.parts[0], table.element, ids[r] * width, width, nullptr, 1.0f, out + r * width);
  });
  return true;
}

void RmsNorm(const float* x, int64_t rows, int64_t width, const void* weight, ElementType element,
             float epsilon, float* out) {
  WorkerPool::Get().ForEach(rows, [&](int64_t r) {
    const float* const row = x + r * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += double{row[i]} * double{row[i]};
    const float mean = static_cast<float>(squares / static_cast<double>(width));
    const float scale = 1.0f / std::sqrt(mean + epsilon);
    HWY_DYNAMIC_DISPATCH(ScaleWeights)(weight, element, 0, width, row, scale, out + r * width);
  });
}

void Rope(const float* x, int64_t rows, int64_t width, int64_t head_dim, int64_t start,
          absl::Span<const float> frequencies, bool interleaved, float* out) {
  const int64_t half = head_dim / 2;
  WorkerPool::Get().ForEach(rows, [&](int64_t r) {
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(start + r) * frequencies[static_cast<size_t>(i)];
      const float cosine = std::cos(angle);
      const float sine = std::sin(angle);
      const int64_t first = interleaved ? 2 * i : i;
      const int64_t second = interleaved ? 2 * i + 1 : i + half;
      for (int64_t head = r * width; head < (r + 1) * width; head += head_dim) {
        const float a = x[head + first];
        const float b = x[head + second];
        out[head + first] = a * cosine - b * sine;
        out[head + second] = a * sine + b * cosine;
      }
    }
  });
}

void SiluMul(const float* gate, const float* up, int64_t rows, int64_t width, float* out) {
  WorkerPool::Get().ForEach(rows, [&](int64_t r) {
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      const float g = gate[i];
      out[i] = g / (1.0f + std::exp(-g)) * up[i];
    }
  });
}

void AddBias(const float* x, int64_t rows, int64_t width, const void* bias, ElementType element,
             float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    HWY_DYNAMIC_DISPATCH(AddWeights)(x + r * width, bias, element, width, out + r * width);
  }
}

void Add(const float* a, const float* b, int64_t rows, int64_t width, float* out) {
  for (int64_t i = 0; i < rows * width; ++i) out[i] = a[i] + b[i];
}

}  // namespace npubank::software_npu
#endif  // HWY_ONCE

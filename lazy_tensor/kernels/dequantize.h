// Dequantize: a run of quantised weights times their scales.
//
//   // A row of 4096 unsigned 4-bit weights, 128 to a scale and a zero point.
//   QuantizedRun run{.type = ElementType::kU4, .weights = row, .scales = scales, .zeros = zeros,
//                    .group = 128};
//   Dequantize(run, ElementType::kF16, out, 4096);
//
//   // A row whose every column has a scale of its own, as in GPTQ and AWQ: group = 1.
//
// Each number is round(float(float(weight - zero) * scale)), weight and zero exactly in F32, both
// operations rounded apart, and the result rounded into `to` by the rules of convert.h: the same
// bits on every instruction set. NF4 weights are their levels (convert.h). Weights: I4 U4 NF4 I8 U8
// I16 U16 F8E4M3 F8E5M2 F16 BF16 F32; results: F32 F16 BF16 I8 U8. Scales and zero points are F32;
// Convert() widens the stored ones exactly, once for many rows. Four-bit runs start on a byte.
// Buffers need no alignment and must not overlap; `out` is only written, front to back. Threads:
// pure functions.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_DEQUANTIZE_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_DEQUANTIZE_H_

#include <cstddef>

#include "npubank/lazy_tensor/element_type.h"

namespace npubank::kernels {

struct QuantizedRun {
  ElementType type = ElementType::kI8;
  const void* weights = nullptr;
  // Element i belongs to scale (first + i) / group, and to the zero point of that number.
  const float* scales = nullptr;
  const float* zeros = nullptr;  // null: no zero point
  size_t group = 1;              // at least 1; as large as you like for a single scale
  size_t first = 0;              // how far into its group the run starts; below `group`
  // Write past the cache, when F16 results go to memory that is not read soon and start on a cache
  // line.
  bool stream = false;
};

bool CanDequantize(ElementType weights, ElementType to);
// Requires CanDequantize(run.type, to).
void Dequantize(const QuantizedRun& run, ElementType to, void* out, size_t count);
void ReferenceDequantize(const QuantizedRun& run, ElementType to, void* out, size_t count);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_DEQUANTIZE_H_

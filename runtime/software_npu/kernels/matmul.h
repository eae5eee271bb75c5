// MatMul: x times a weight, with the weight converted on its way into the registers.
//
//   MatMul({x, rows, depth, weight, ElementType::kBF16, /*transposed=*/true, columns, addend,
//   out});
//   MatMul({.x = x, ..., .parts = &stored, .transposed = true, ...});   // decoded, a tile at a time
//
// out[r,c] = (addend[r,c] +) the sum over k of x[r,k] * w[k,c], in F32. The sum of one output has
// one order, whatever the number of rows and of threads, so a row comes out bit-equal in a prefill
// and alone:
//   weight [depth, columns]              k = 0, 1, 2, ... one after the other
//   weight [columns, depth], transposed  lane l takes k = l, l + L, ...; then the lanes, then a
//   rest
//                                        shorter than L (L: the floats in a vector)
// `addend` may be `out`; nothing else may overlap `out`. Memory needs no more than the alignment of
// its elements. Cost: one row runs at the speed of memory; many rows read the weight once per 64.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_MATMUL_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_MATMUL_H_

#include <cstdint>

#include "npubank/lazy_tensor/element_type.h"
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

namespace npubank::software_npu {

struct MatMulOperands {
  const float* x = nullptr;
  int64_t rows = 0;
  int64_t depth = 0;
  const void* weight = nullptr;
  ElementType element = ElementType::kF32;  // of the weight: F32, F16 or BF16
  bool transposed = false;
  int64_t columns = 0;
  const float* addend = nullptr;  // or null
  float* out = nullptr;
  // A weight in parts, instead of `weight`: by rows where it is transposed, else in words. Each tile is
  // decoded once for all rows of x; the sums are those over the same numbers in F32.
  const WeightOperand* parts = nullptr;
};

void MatMul(const MatMulOperands& operands);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_MATMUL_H_

// The operations that work on each row by itself.
//
// Activations are F32, dense, `rows` rows; weights are F32, F16 or BF16, tables of any form that lies by
// rows. Inputs may be the output where function_check.cc says so. Each row's result depends on that row alone.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ROWS_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ROWS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/runtime/software_npu/kernels/weight_operand.h"

namespace npubank::software_npu {

// out[r] = table[ids[r]]. False when an id is not a row of the table.
bool Embed(const int32_t* ids, int64_t rows, const WeightOperand& table, float* out);

void RmsNorm(const float* x, int64_t rows, int64_t width, const void* weight, ElementType element,
             float epsilon, float* out);

// Turns the pairs of every head of row r by (start + r) * frequencies[i].
void Rope(const float* x, int64_t rows, int64_t width, int64_t head_dim, int64_t start,
          absl::Span<const float> frequencies, bool interleaved, float* out);

// gate * sigmoid(gate) * up
void SiluMul(const float* gate, const float* up, int64_t rows, int64_t width, float* out);

// x plus the bias, in every row.
void AddBias(const float* x, int64_t rows, int64_t width, const void* bias, ElementType element,
             float* out);

void Add(const float* a, const float* b, int64_t rows, int64_t width, float* out);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ROWS_H_

// Convert: runs of numbers from one element type to another.
//
//   if (CanConvert(ElementType::kBF16, ElementType::kF16))
//     Convert(ElementType::kBF16, in, ElementType::kF16, out, count);
//
// Exact rules, the same bit for bit on every instruction set (Highway picks one at run time):
// - float to narrower float rounds to nearest even; NaN stays NaN; BF16/F32/F64 to F16 saturates to the
//   largest finite value (infinities too), since one infinite weight ruins a whole row; F8 likewise.
// - float to integer rounds to nearest even and saturates; NaN becomes 0. Integer to integer saturates.
// - four-bit runs are packed two to a byte, first in the low nibble, and start on a byte.
// Buffers need no alignment and must not overlap. `out` is only written. Threads: pure functions.
// ReferenceConvert is the plain loop that says what the rules mean; tests hold Convert against it.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_CONVERT_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_CONVERT_H_

#include <cstddef>

#include "lazy_tensor/element_type.h"

namespace npubank::kernels {

bool CanConvert(ElementType from, ElementType to);
// Requires CanConvert(from, to).
void Convert(ElementType from, const void* in, ElementType to, void* out, size_t count);
void ReferenceConvert(ElementType from, const void* in, ElementType to, void* out, size_t count);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_CONVERT_H_

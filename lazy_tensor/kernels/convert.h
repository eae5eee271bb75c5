// Convert: runs of numbers from one element type to another.
//
//   if (CanConvert(ElementType::kBF16, ElementType::kF16))
//     Convert(ElementType::kBF16, in, ElementType::kF16, out, count);
//
// Exact rules, the same bit for bit on every instruction set (Highway picks one at run time):
// - float to narrower float rounds to nearest even, once (F64 and integers too); NaN stays NaN, of
//   the same sign; what is beyond F16 or F8 becomes their largest finite value (infinities too),
//   since one infinite weight ruins a whole row.
// - float to integer rounds to nearest even and saturates; NaN becomes 0. Integer to integer
//   saturates. Bool reads as 0 or 1. Nothing converts to Bool or NF4 but themselves.
// - four-bit runs are packed two to a byte, first in the low nibble, and start on a byte.
// Buffers need no alignment and must not overlap. `out` is only written, and with `stream` past the
// cache: for memory that is larger than it, or not read soon. Threads: pure functions.
// ReferenceConvert is the plain loop that says what the rules mean; tests hold Convert against it.
#ifndef NPUBANK_LAZY_TENSOR_KERNELS_CONVERT_H_
#define NPUBANK_LAZY_TENSOR_KERNELS_CONVERT_H_

#include <cstddef>

#include "npubank/lazy_tensor/element_type.h"

namespace npubank::kernels {

// Whether F32 has every number of the type.
constexpr bool F32Holds(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
    case ElementType::kU64:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kBool:  // has no numbers
      return false;
    default:
      return true;
  }
}

// The floats that results are computed to and that scales are stored in.
constexpr bool IsPlainFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
}

bool CanConvert(ElementType from, ElementType to);
// Requires CanConvert(from, to).
void Convert(ElementType from, const void* in, ElementType to, void* out, size_t count,
             bool stream = false);
// The first of `count` numbers, F32 or BF16, that is finite and rounds beyond F16's largest; `count`: none does.
size_t FirstBeyondF16(ElementType from, const void* in, size_t count);
void ReferenceConvert(ElementType from, const void* in, ElementType to, void* out, size_t count);

}  // namespace npubank::kernels

#endif  // NPUBANK_LAZY_TENSOR_KERNELS_CONVERT_H_

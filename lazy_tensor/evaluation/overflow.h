// Overflow: the error for a number that is made F16 and that F16 cannot hold.
//
//   NPUBANK_RETURN_IF_ERROR(CheckF16Holds(values, box, ElementType::kBF16, numbers));
//
// A number of a BF16 or F32 file may be larger than F16's largest, 65504, which would take its place in silence.
// Infinities and what is no number stay what conversion makes of them and are no error.
//
// Internal to the evaluator, which looks at what it is about to convert (EvaluateOptions::f16_must_hold). Threads: pure.
// Cost: a look at numbers that are in the cache for their conversion.
#ifndef NPUBANK_LAZY_TENSOR_EVALUATION_OVERFLOW_H_
#define NPUBANK_LAZY_TENSOR_EVALUATION_OVERFLOW_H_

#include <cstddef>

#include "absl/status/status.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/evaluation/box.h"

namespace npubank {

class Recipe;  // lazy_tensor/recipe/recipe.h

// `numbers`: those of `box` of `values`, one after the other, F32 or BF16; of other types it is OkStatus.
// InvalidArgument naming the tensor, the first number that F16 cannot hold and its place.
absl::Status CheckF16Holds(const Recipe& values, const Box& box, ElementType element, const std::byte* numbers);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_EVALUATION_OVERFLOW_H_

// Overflow: whether the stored numbers that a recipe makes F16 of fit into it.
//
//   NPUBANK_RETURN_IF_ERROR(CheckF16Holds(*recipe, options));   // before Evaluate
//
// A number of a BF16 or F32 file may be larger than F16's largest, 65504, and would become an infinity in silence.
// Looked at are conversions to F16 of a stored tensor, transposed and reshaped or not; of any other recipe it is
// OkStatus. Infinities and what is no number stay what they are and are no error.
//
// Threads: any; works with options.workers. Cost: one pass over the stored tensor.
// Errors: InvalidArgument naming the tensor, the first such number and its place; those of EvaluateRange.
#ifndef NPUBANK_LAZY_TENSOR_EVALUATION_OVERFLOW_H_
#define NPUBANK_LAZY_TENSOR_EVALUATION_OVERFLOW_H_

#include "absl/status/status.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"

namespace npubank {

absl::Status CheckF16Holds(const Recipe& recipe, const EvaluateOptions& options);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_EVALUATION_OVERFLOW_H_

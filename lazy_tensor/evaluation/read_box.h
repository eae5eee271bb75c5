// ReadBox: a box of a tensor that is stored where it cannot be read in place (FileAccess::kRead), to
// its place in memory, in few and long reads. Internal to the evaluator.
//
// Runs that are long in the file and dense at the target are read straight to their place.
// Otherwise a piece of the box is read into scratch and copied to its place. A read costs a system
// call, so small gaps are read too and passed over: a box of few columns of a matrix becomes one
// read per group of rows, not one per row.
#ifndef NPUBANK_LAZY_TENSOR_EVALUATION_READ_BOX_H_
#define NPUBANK_LAZY_TENSOR_EVALUATION_READ_BOX_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/evaluation/box.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

// A row-major tensor at a byte of a source.
struct TensorInSource {
  const Source& source;
  uint64_t offset = 0;
  const Shape& shape;
  int element_bits = 8;
};

// `scratch` holds at least 16 bytes; the more, the longer the reads.
absl::Status ReadBox(const TensorInSource& tensor, const Box& box, absl::Span<std::byte> scratch,
                     const Target& target);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_EVALUATION_READ_BOX_H_

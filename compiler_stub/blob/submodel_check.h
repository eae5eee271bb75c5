// CheckSubmodel: whether a SubmodelBlob can be run without further checks.
//
//   NPUBANK_RETURN_IF_ERROR(CheckSubmodel(blob));  // its functions are read already
//
// It checks that
// - functions, values, weights and calls have proper names, distinct within their kind (for weights:
//   name and part);
// - every call binds each argument of its function: inputs to values of the argument's type that
//   exist by then, to weights or, the argument "scratch" alone, to the scratch region; outputs to
//   arena or output values. Only a state is bound to an argument that its function writes to;
//   types of weights are known when recipes are decoded, so two bindings of one weight must
//   agree, and the runtime compares the recipe; a call that takes a scale, zero point or minimum
//   takes the weight that it belongs to as well;
// - arena values and the scratch region are 64-byte aligned and inside the arena; no value that is
//   read later is written over, and an output lies on an input exactly where its function says so.
// Errors: InvalidArgument naming the submodel and the part. Cost: O(n log n) in bindings.
#ifndef NPUBANK_COMPILER_STUB_BLOB_SUBMODEL_CHECK_H_
#define NPUBANK_COMPILER_STUB_BLOB_SUBMODEL_CHECK_H_

#include "absl/status/status.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"

namespace npubank {

absl::Status CheckSubmodel(const SubmodelBlob& blob);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_SUBMODEL_CHECK_H_

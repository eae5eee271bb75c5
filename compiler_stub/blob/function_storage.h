// CheckStorage: that no operation of a function writes over a value which is still needed.
//
//   NPUBANK_RETURN_IF_ERROR(CheckStorage(function));  // indices and types are checked already
//
// Runs through the operations in order, keeping the values that are live and where they lie. A part
// of CheckFunction (function_check.h), which says what may share storage. Errors: InvalidArgument
// naming the operation and the value. Cost: O(n log n) in values.
#ifndef NPUBANK_COMPILER_STUB_BLOB_FUNCTION_STORAGE_H_
#define NPUBANK_COMPILER_STUB_BLOB_FUNCTION_STORAGE_H_

#include "absl/status/status.h"
#include "npubank/compiler_stub/blob/function_blob.h"

namespace npubank {

absl::Status CheckStorage(const Function& function);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_FUNCTION_STORAGE_H_

// CheckFunction: whether a Function can be executed without further checks.
//
//   NPUBANK_RETURN_IF_ERROR(CheckFunction(function));
//
// ReadFunctionBlob calls it on what a file says and the compiler on what it made. It checks that
// - arguments have distinct names and fit the graph extension (five dimensions of 32 bits), inputs
//   come first, an output lies on an input only of its type, and the argument "scratch" (U8, the
//   last input) is there exactly when scratch_bytes > 0;
// - every value has one maker: an operation, or the input argument it lies in; it is made before
//   it is used;
// - every operation keeps the rules of its kind (op_rules.h);
// - storage is inside its argument or 64-byte aligned inside scratch, and no operation writes over
//   a value that is still needed. An output may lie exactly on an input that dies there only where
//   OutputMayOverwrite says that the operation can work in place.
// Errors: InvalidArgument naming the function and the operation or value. Cost: O(n log n) in
// values.
#ifndef NPUBANK_COMPILER_STUB_BLOB_FUNCTION_CHECK_H_
#define NPUBANK_COMPILER_STUB_BLOB_FUNCTION_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/function_blob.h"

namespace npubank {

inline constexpr uint64_t kScratchAlignment = 64;
inline constexpr char kScratchArgument[] = "scratch";

absl::Status CheckFunction(const Function& function);

// A name that messages, the graph extension and maps can take: 1 to 255 characters, none of
// control.
absl::Status CheckName(absl::string_view name);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_FUNCTION_CHECK_H_

// Level Zero results as absl::Status.
//
//   NPUBANK_RETURN_IF_ERROR(ZeStatus(zeFenceReset(fence), "zeFenceReset"));
//
// The message names the call, the result in Level Zero's spelling and what to do where that is
// known. OUT_OF_*_MEMORY becomes ResourceExhausted, UNSUPPORTED_* Unimplemented, INVALID_*
// InvalidArgument, DEVICE_LOST Unavailable, NOT_READY DeadlineExceeded, the rest Internal.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_RESULT_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_RESULT_H_

#include <level_zero/ze_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace npubank::level_zero {

std::string ZeResultName(ze_result_t result);
absl::Status ZeStatus(ze_result_t result, absl::string_view call);

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_RESULT_H_

#include "npubank/runtime/level_zero/result.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace npubank::level_zero {
namespace {

struct Meaning {
  ze_result_t result;
  const char* name;
  absl::StatusCode code;
  const char* advice;  // empty where the result says it all
};

constexpr Meaning kMeanings[] = {
    {ZE_RESULT_NOT_READY, "NOT_READY", absl::StatusCode::kDeadlineExceeded, ""},
    {ZE_RESULT_ERROR_DEVICE_LOST, "DEVICE_LOST", absl::StatusCode::kUnavailable,
     "the device gave up on a job; close this session and open the device again"},
    {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "OUT_OF_HOST_MEMORY", absl::StatusCode::kResourceExhausted,
     ""},
    {ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, "OUT_OF_DEVICE_MEMORY",
     absl::StatusCode::kResourceExhausted, "free device memory or unload a model, then retry"},
    {ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS, "INSUFFICIENT_PERMISSIONS",
     absl::StatusCode::kPermissionDenied, "the user needs access to the accelerator node"},
    {ZE_RESULT_ERROR_NOT_AVAILABLE, "NOT_AVAILABLE", absl::StatusCode::kFailedPrecondition, ""},
    {ZE_RESULT_ERROR_UNINITIALIZED, "UNINITIALIZED", absl::StatusCode::kFailedPrecondition, ""},
    {ZE_RESULT_ERROR_UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION", absl::StatusCode::kUnimplemented,
     ""},
    {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "UNSUPPORTED_FEATURE", absl::StatusCode::kUnimplemented,
     "this driver does not have it"},
    {ZE_RESULT_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT", absl::StatusCode::kInvalidArgument, ""},
    {ZE_RESULT_ERROR_INVALID_NULL_HANDLE, "INVALID_NULL_HANDLE", absl::StatusCode::kInvalidArgument,
     ""},
    {ZE_RESULT_ERROR_INVALID_NULL_POINTER, "INVALID_NULL_POINTER",
     absl::StatusCode::kInvalidArgument, ""},
    {ZE_RESULT_ERROR_INVALID_SIZE, "INVALID_SIZE", absl::StatusCode::kInvalidArgument, ""},
    {ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "UNSUPPORTED_SIZE", absl::StatusCode::kInvalidArgument, ""},
    {ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, "UNSUPPORTED_ALIGNMENT",
     absl::StatusCode::kInvalidArgument, ""},
    {ZE_RESULT_ERROR_INVALID_NATIVE_BINARY, "INVALID_NATIVE_BINARY",
     absl::StatusCode::kInvalidArgument, "the driver does not take this blob"},
    {ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, "HANDLE_OBJECT_IN_USE",
     absl::StatusCode::kFailedPrecondition, ""},
    {ZE_RESULT_ERROR_INVALID_ENUMERATION, "INVALID_ENUMERATION", absl::StatusCode::kInvalidArgument,
     ""},
    {ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION, "UNSUPPORTED_ENUMERATION",
     absl::StatusCode::kUnimplemented, ""},
};

const Meaning* Find(ze_result_t result) {
  for (const Meaning& meaning : kMeanings)
    if (meaning.result == result) return &meaning;
  return nullptr;
}

}  // namespace

std::string ZeResultName(ze_result_t result) {
  if (result == ZE_RESULT_SUCCESS) return "SUCCESS";
  const Meaning* meaning = Find(result);
  return meaning ? meaning->name : absl::StrFormat("result 0x%x", static_cast<uint32_t>(result));
}

absl::Status ZeStatus(ze_result_t result, absl::string_view call) {
  if (result == ZE_RESULT_SUCCESS) return absl::OkStatus();
  const Meaning* meaning = Find(result);
  std::string message = absl::StrCat(call, " returned ", ZeResultName(result));
  if (!meaning) return absl::InternalError(message);
  if (*meaning->advice) absl::StrAppend(&message, ": ", meaning->advice);
  return absl::Status(meaning->code, message);
}

}  // namespace npubank::level_zero

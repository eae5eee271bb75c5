// Loader: which driver the Level Zero loader takes, chosen before zeInit.
//
//   NPUBANK_RETURN_IF_ERROR(InitLoader(DeviceChoice::kAuto));
//
// kAuto: the hardware when an accelerator node (/dev/accel/accel*) is there, else the software NPU
// (libze_software_npu.so beside the program or library that holds this code). The choice is made by
// setting ZE_ENABLE_ALT_DRIVERS; one that the user has set is respected as it is, and may list both
// kinds: Device::Open looks among what it lists.
//
// The loader initialises once per process, so the first call that finds its driver decides; a later
// call with a choice that contradicts it is FailedPrecondition. The hardware's driver is asked
// before the loader is: where there is none, or it does not work, the software NPU can still be
// chosen. After a failed zeInit of the loader nothing of Level Zero may be called: the same error is
// returned ever after. Call it before other threads read the environment.
// Errors: NotFound when no driver is installed, or the software NPU is not beside the library;
// Unavailable with what zeInit said.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_LOADER_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_LOADER_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace npubank::level_zero {

enum class DeviceChoice { kAuto, kSoftware, kHardware };
// "auto", "software", "hardware".
std::optional<DeviceChoice> DeviceChoiceFromName(absl::string_view name);

absl::Status InitLoader(DeviceChoice choice);

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_LOADER_H_

#include "npubank/runtime/level_zero/loader.h"

#include <dlfcn.h>
#include <level_zero/ze_api.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

constexpr char kAltDrivers[] = "ZE_ENABLE_ALT_DRIVERS";
constexpr char kSoftwareNpu[] = "libze_software_npu.so";

bool AcceleratorNodePresent() {
  std::error_code error;  // not a range-for, whose steps throw
  std::filesystem::directory_iterator entry("/dev/accel", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (absl::string_view(entry->path().filename().c_str()).substr(0, 5) == "accel") return true;
  return false;
}

// The folder of the program or shared library that this code was linked into.
std::filesystem::path OwnFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0 || !info.dli_fname) return {};
  std::error_code error;
  std::filesystem::path self = std::filesystem::canonical(info.dli_fname, error);
  if (error) self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path();
}

absl::StatusOr<std::string> FindSoftwareNpu() {
  const std::filesystem::path folder = OwnFolder();
  for (const auto& candidate :
       {folder / kSoftwareNpu, folder.parent_path() / "lib" / kSoftwareNpu}) {
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate.string();
  }
  return absl::NotFoundError(absl::StrCat("the software NPU's driver ", kSoftwareNpu, " is not in ",
                                          folder.string(),
                                          ": build target ze_software_npu, or set ", kAltDrivers));
}

// Debian 12's loader knows only the NPU driver's older name, so the one that is installed is named
// to it.
std::string InstalledHardwareDriver() {
  for (const char* name : {"libze_intel_npu.so.1", "libze_intel_vpu.so.1"}) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      dlclose(library);
      return name;
    }
  }
  return {};
}

absl::Status ChooseDriver(DeviceChoice choice) {
  if (std::getenv(kAltDrivers)) return absl::OkStatus();
  std::string driver;
  if (choice == DeviceChoice::kHardware) {
    driver = InstalledHardwareDriver();
  } else {
    NPUBANK_ASSIGN_OR_RETURN(driver, FindSoftwareNpu());
  }
  if (!driver.empty()) setenv(kAltDrivers, driver.c_str(), /*overwrite=*/0);
  return absl::OkStatus();
}

absl::Status Initialize(DeviceChoice choice) {
  // GPU_ONLY would poison the process for an NPU, so say what is wanted.
  const ze_result_t result = zeInit(ZE_INIT_FLAG_VPU_ONLY);
  if (result == ZE_RESULT_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "no NPU driver could be initialised: zeInit returned ", ZeResultName(result),
      choice == DeviceChoice::kHardware ? "; install the NPU driver or use the software device"
                                        : absl::StrCat("; check ", kAltDrivers)));
}

struct Process {
  Mutex mutex;
  std::optional<DeviceChoice> choice ABSL_GUARDED_BY(mutex);
  absl::Status status ABSL_GUARDED_BY(mutex);
};

Process& TheProcess() {
  static Process& process = *new Process;
  return process;
}

}  // namespace

std::optional<DeviceChoice> DeviceChoiceFromName(absl::string_view name) {
  if (name == "auto") return DeviceChoice::kAuto;
  if (name == "software") return DeviceChoice::kSoftware;
  if (name == "hardware") return DeviceChoice::kHardware;
  return std::nullopt;
}

absl::Status InitLoader(DeviceChoice choice) {
  Process& process = TheProcess();
  // zeInit must happen once, before anything else: the one call that is made under a lock.
  MutexLock lock(process.mutex);
  if (process.choice) {
    if (choice != DeviceChoice::kAuto && choice != *process.choice)
      return absl::FailedPreconditionError(
          "this process has opened another kind of device: the Level Zero loader can only be "
          "initialised once");
    return process.status;
  }
  if (choice == DeviceChoice::kAuto)
    choice = AcceleratorNodePresent() ? DeviceChoice::kHardware : DeviceChoice::kSoftware;
  // Nothing has been initialised yet: what is missing can be put right.
  NPUBANK_RETURN_IF_ERROR(ChooseDriver(choice));
  process.choice = choice;
  process.status = Initialize(choice);
  return process.status;
}

}  // namespace npubank::level_zero

#include "npubank/runtime/level_zero/loader.h"

#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
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

// Beside the program, as it is built; then where it is installed, from a program in bin and from a library; last, for
// somebody else's program, where this library was to be installed, and where Debian packages are.
absl::StatusOr<std::string> FindSoftwareNpu() {
  const std::filesystem::path folder = OwnFolder();
  for (const auto& place :
       {folder, folder.parent_path() / NPUBANK_INSTALL_LIBDIR / "npubank", folder / "npubank",
        std::filesystem::path(NPUBANK_INSTALL_FULL_LIBDIR) / "npubank",
        std::filesystem::path("/usr") / NPUBANK_INSTALL_LIBDIR / "npubank"}) {
    std::error_code error;
    if (std::filesystem::exists(place / kSoftwareNpu, error)) return place / kSoftwareNpu;
  }
  return absl::NotFoundError(absl::StrCat("the software NPU's driver ", kSoftwareNpu, " is not in ",
                                          folder.string(),
                                          " nor where npubank's tools are installed: build target "
                                          "ze_software_npu, install them, or set ",
                                          kAltDrivers));
}

struct Unload {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Unload>;

// What the driver itself says: the loader's zeInit, once it has failed, fails for good, and with it
// every other choice.
absl::Status AskDriver(const Library& library, absl::string_view name) {
  const auto get_table = reinterpret_cast<decltype(&zeGetGlobalProcAddrTable)>(
      dlsym(library.get(), "zeGetGlobalProcAddrTable"));
  ze_global_dditable_t table = {};
  if (get_table == nullptr || get_table(ZE_API_VERSION_1_0, &table) != ZE_RESULT_SUCCESS ||
      table.pfnInit == nullptr)
    return absl::UnavailableError(absl::StrCat("'", name, "' is not a Level Zero driver"));
  const ze_result_t result = table.pfnInit(ZE_INIT_FLAG_VPU_ONLY);
  if (result == ZE_RESULT_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "the NPU driver '", name, "' cannot be initialised: zeInit returned ", ZeResultName(result),
      "; check that the kernel has the NPU, or use the software device"));
}

// Debian 12's loader knows only the NPU driver's older name, so the one that is installed is named
// to it.
absl::StatusOr<std::string> FindHardwareDriver() {
  for (const char* name : {"libze_intel_npu.so.1", "libze_intel_vpu.so.1"}) {
    const Library library(dlopen(name, RTLD_LAZY | RTLD_LOCAL));
    if (library == nullptr) continue;
    NPUBANK_RETURN_IF_ERROR(AskDriver(library, name));
    return name;
  }
  return absl::NotFoundError(
      "no NPU driver is installed ('libze_intel_npu.so.1'): install it or use the software device");
}

absl::Status ChooseDriver(DeviceChoice choice) {
  const absl::StatusOr<std::string> driver =
      choice == DeviceChoice::kHardware ? FindHardwareDriver() : FindSoftwareNpu();
  NPUBANK_RETURN_IF_ERROR(driver.status());
  setenv(kAltDrivers, driver->c_str(), /*overwrite=*/0);
  return absl::OkStatus();
}

absl::Status Initialize() {
  // GPU_ONLY would poison the process for an NPU, so say what is wanted.
  const ze_result_t result = zeInit(ZE_INIT_FLAG_VPU_ONLY);
  if (result == ZE_RESULT_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no NPU driver could be initialised: zeInit returned ",
                                             ZeResultName(result), "; check ", kAltDrivers, " ('",
                                             std::getenv(kAltDrivers), "')"));
}

struct Process {
  Mutex mutex;
  std::optional<DeviceChoice> choice ABSL_GUARDED_BY(mutex);
  bool listed_by_user ABSL_GUARDED_BY(mutex) = false;
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
    if (!process.listed_by_user && choice != DeviceChoice::kAuto && choice != *process.choice)
      return absl::FailedPreconditionError(
          "this process has opened another kind of device: the Level Zero loader can only be "
          "initialised once");
    return process.status;
  }
  if (choice == DeviceChoice::kAuto)
    choice = AcceleratorNodePresent() ? DeviceChoice::kHardware : DeviceChoice::kSoftware;
  process.listed_by_user = std::getenv(kAltDrivers) != nullptr;
  // Nothing has been initialised yet: what is missing can be put right, or another choice made.
  if (!process.listed_by_user) NPUBANK_RETURN_IF_ERROR(ChooseDriver(choice));
  process.choice = choice;
  process.status = Initialize();
  return process.status;
}

}  // namespace npubank::level_zero

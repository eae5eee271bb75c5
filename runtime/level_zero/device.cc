#include "npubank/runtime/level_zero/device.h"

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

struct Found {
  ze_driver_handle_t driver = nullptr;
  ze_device_handle_t device = nullptr;
  ze_device_properties_t properties = {};
};

template <typename Extension>
const Extension* FindExtension(ze_driver_handle_t driver, const char* name) {
  void* table = nullptr;
  if (zeDriverGetExtensionFunctionAddress(driver, name, &table) != ZE_RESULT_SUCCESS)
    return nullptr;
  return static_cast<const Extension*>(table);
}

const SoftwareNpuExtension* Software(ze_driver_handle_t driver) {
  return FindExtension<SoftwareNpuExtension>(driver, kSoftwareNpuExtensionName);
}

// A user's list of drivers may have both kinds.
bool Fits(DeviceChoice choice, ze_driver_handle_t driver) {
  if (choice == DeviceChoice::kAuto) return true;
  return (choice == DeviceChoice::kSoftware) == (Software(driver) != nullptr);
}

absl::Status NoNpu(DeviceChoice choice) {
  const char* kind = choice == DeviceChoice::kSoftware   ? "software "
                     : choice == DeviceChoice::kHardware ? "hardware "
                                                         : "";
  const char* listed = std::getenv("ZE_ENABLE_ALT_DRIVERS");
  return absl::NotFoundError(absl::StrCat("no ", kind, "NPU among the devices of '",
                                          listed == nullptr ? "the system's drivers" : listed,
                                          "': choose another device, or another "
                                          "ZE_ENABLE_ALT_DRIVERS"));
}

// The order of drivers is not fixed and a GPU's may come first: walk them all and look at the type.
absl::StatusOr<Found> FindNpu(DeviceChoice choice) {
  uint32_t driver_count = 0;
  NPUBANK_RETURN_IF_ERROR(ZeStatus(zeDriverGet(&driver_count, nullptr), "zeDriverGet"));
  std::vector<ze_driver_handle_t> drivers(driver_count);
  NPUBANK_RETURN_IF_ERROR(ZeStatus(zeDriverGet(&driver_count, drivers.data()), "zeDriverGet"));
  for (ze_driver_handle_t driver : drivers) {
    uint32_t count = 0;
    if (zeDeviceGet(driver, &count, nullptr) != ZE_RESULT_SUCCESS) continue;
    std::vector<ze_device_handle_t> devices(count);
    if (zeDeviceGet(driver, &count, devices.data()) != ZE_RESULT_SUCCESS) continue;
    for (ze_device_handle_t device : devices) {
      Found found{driver, device, {}};
      found.properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
      if (zeDeviceGetProperties(device, &found.properties) == ZE_RESULT_SUCCESS &&
          found.properties.type == ZE_DEVICE_TYPE_VPU && Fits(choice, driver))
        return found;
    }
  }
  return NoNpu(choice);
}

// A driver that will not say is taken for one of the first version.
uint32_t AskGraphVersion(const GraphExtension& graphs, ze_device_handle_t device) {
  DeviceGraphProperties properties;
  if (graphs.pfnDeviceGetGraphProperties == nullptr ||
      graphs.pfnDeviceGetGraphProperties(device, &properties) != ZE_RESULT_SUCCESS)
    return GraphVersion(1, 0);
  return properties.graphExtensionVersion;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> Device::Open(DeviceChoice choice) {
  NPUBANK_RETURN_IF_ERROR(InitLoader(choice));
  NPUBANK_ASSIGN_OR_RETURN(Found found, FindNpu(choice));
  std::shared_ptr<Device> device(new Device);
  device->driver_ = found.driver;
  device->device_ = found.device;
  device->name_.assign(found.properties.name,
                       strnlen(found.properties.name, sizeof(found.properties.name)));
  device->integrated_ = (found.properties.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED) != 0;
  ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  NPUBANK_RETURN_IF_ERROR(ZeStatus(zeContextCreate(found.driver, &desc, device->context_.Receive()),
                                   "zeContextCreate"));
  device->graphs_ = FindExtension<GraphExtension>(found.driver, kGraphExtensionName);
  if (device->graphs_ != nullptr)
    device->graph_version_ = AskGraphVersion(*device->graphs_, found.device);
  device->software_ = Software(found.driver);
  return device;
}

uint64_t Device::argument_alignment() const {
  uint64_t alignment = 64;
  if (software_ != nullptr) software_->pfnGetArgumentAlignment(&alignment);
  return alignment;
}

absl::StatusOr<uint64_t> Device::AllocatedBytes() const {
  if (graph_version_ < GraphVersion(1, 5) || !graphs_->pfnQueryContextMemory)
    return absl::UnimplementedError("this driver cannot be asked how much memory a context holds");
  GraphMemoryQuery query;
  NPUBANK_RETURN_IF_ERROR(ZeStatus(
      graphs_->pfnQueryContextMemory(context(), kMemoryTypeDdr, &query), "pfnQueryContextMemory"));
  return query.allocated;
}

}  // namespace npubank::level_zero

#include "npubank/runtime/level_zero/imported_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

constexpr char kExtensionName[] = "ZE_extension_external_memmap_sysmem";
constexpr uint32_t kStructureSystemMemory = 0x00020037;

struct SystemMemoryDesc {
  uint32_t stype = kStructureSystemMemory;
  const void* pNext = nullptr;
  void* pSystemMemory = nullptr;
  uint64_t size = 0;
};

}  // namespace

bool ImportedMemory::Supported(const Device& device) {
  uint32_t count = 0;
  if (zeDriverGetExtensionProperties(device.driver(), &count, nullptr) != ZE_RESULT_SUCCESS)
    return false;
  std::vector<ze_driver_extension_properties_t> extensions(count);
  if (zeDriverGetExtensionProperties(device.driver(), &count, extensions.data()) !=
      ZE_RESULT_SUCCESS)
    return false;
  return std::any_of(extensions.begin(), extensions.end(), [](const auto& extension) {
    return std::strncmp(extension.name, kExtensionName, sizeof(extension.name)) == 0;
  });
}

absl::StatusOr<ImportedMemory> ImportedMemory::Create(std::shared_ptr<Device> device,
                                                      const void* memory, uint64_t bytes) {
  SystemMemoryDesc system;
  system.pSystemMemory = const_cast<void*>(memory);
  system.size = bytes;
  ze_host_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, &system,
                                   ZE_HOST_MEM_ALLOC_FLAG_BIAS_WRITE_COMBINED};
  void* address = nullptr;
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeMemAllocHost(device->context(), &desc, bytes, 0, &address), "zeMemAllocHost"));
  ImportedMemory imported;
  imported.device_ = std::move(device);
  imported.address_ = address;
  imported.live_ = LiveObject("Level Zero import");
  // A driver that does not know the structure allocates memory of its own.
  if (address != memory)
    return absl::UnimplementedError("this driver ignores ZE_extension_external_memmap_sysmem");
  return imported;
}

ImportedMemory::~ImportedMemory() {
  if (address_) zeMemFree(device_->context(), address_);
}

}  // namespace npubank::level_zero

#include "npubank/runtime/level_zero/virtual_memory.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

// The start of a page, however large pages are, far from where programs lie.
const void* const kSomewhere = reinterpret_cast<const void*>(uintptr_t{1} << 44);

}  // namespace

absl::StatusOr<uint64_t> VirtualPageBytes(const Device& device) {
  size_t page = 0;
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeVirtualMemQueryPageSize(device.context(), device.device(), 1, &page),
               "zeVirtualMemQueryPageSize"));
  if (page == 0 || (page & (page - 1)) != 0)
    return absl::UnimplementedError(
        absl::StrCat("the driver's virtual memory has a page size of ", page));
  return page;
}

absl::StatusOr<AddressRange> AddressRange::Reserve(std::shared_ptr<Device> device, uint64_t bytes) {
  AddressRange range;
  // Null means "anywhere", but older versions of the interface, and their loaders' validation
  // layer, want a place to be named; where that is taken the driver chooses another.
  ze_result_t result = ZE_RESULT_SUCCESS;
  for (const void* start : {static_cast<const void*>(nullptr), kSomewhere}) {
    result = zeVirtualMemReserve(device->context(), start, bytes, &range.address_);
    if (result != ZE_RESULT_ERROR_INVALID_NULL_POINTER) break;
  }
  NPUBANK_RETURN_IF_ERROR(ZeStatus(result, "zeVirtualMemReserve"));
  range.device_ = std::move(device);
  range.bytes_ = bytes;
  range.live_ = LiveObject("Level Zero address range");
  return range;
}

AddressRange::~AddressRange() {
  if (address_) zeVirtualMemFree(device_->context(), address_, bytes_);
}

absl::StatusOr<PhysicalMemory> PhysicalMemory::Create(std::shared_ptr<Device> device,
                                                      uint64_t bytes) {
  ze_physical_mem_desc_t desc = {ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, nullptr, 0, bytes};
  PhysicalMemory memory;
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zePhysicalMemCreate(device->context(), device->device(), &desc, &memory.handle_),
               "zePhysicalMemCreate"));
  memory.device_ = std::move(device);
  memory.bytes_ = bytes;
  memory.live_ = LiveObject("Level Zero physical memory");
  return memory;
}

PhysicalMemory::~PhysicalMemory() {
  if (handle_) zePhysicalMemDestroy(device_->context(), handle_);
}

absl::StatusOr<Mapping> Mapping::Create(std::shared_ptr<Device> device, void* address,
                                        ze_physical_mem_handle_t memory, uint64_t offset,
                                        uint64_t bytes) {
  NPUBANK_RETURN_IF_ERROR(ZeStatus(zeVirtualMemMap(device->context(), address, bytes, memory,
                                                   offset, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                                   "zeVirtualMemMap"));
  Mapping mapping;
  mapping.device_ = std::move(device);
  mapping.address_ = address;
  mapping.bytes_ = bytes;
  mapping.live_ = LiveObject("Level Zero mapping");
  return mapping;
}

Mapping::~Mapping() {
  if (address_) zeVirtualMemUnmap(device_->context(), address_, bytes_);
}

}  // namespace npubank::level_zero

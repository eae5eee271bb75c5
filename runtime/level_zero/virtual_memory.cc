#include "runtime/level_zero/virtual_memory.h"

#include "lazy_tensor/status_macros.h"
#include "runtime/level_zero/result.h"

namespace npubank::level_zero {

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
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeVirtualMemReserve(device->context(), nullptr, bytes, &range.address_),
               "zeVirtualMemReserve"));
  range.device_ = std::move(device);
  range.bytes_ = bytes;
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
  return mapping;
}

Mapping::~Mapping() {
  if (address_) zeVirtualMemUnmap(device_->context(), address_, bytes_);
}

}  // namespace npubank::level_zero

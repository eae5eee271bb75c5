#include "npubank/runtime/level_zero/buffer.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

absl::Status Named(const absl::Status& status, absl::string_view name, uint64_t bytes) {
  return Annotate(status, absl::StrCat("'", name, "' (", bytes, " bytes)"));
}

}  // namespace

absl::StatusOr<Buffer> Buffer::AllocateHost(std::shared_ptr<Device> device, uint64_t bytes,
                                            absl::string_view name) {
  ze_host_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  Buffer buffer;
  NPUBANK_RETURN_IF_ERROR(
      Named(ZeStatus(zeMemAllocHost(device->context(), &desc, bytes, 0, &buffer.address_),
                     "zeMemAllocHost"),
            name, bytes));
  buffer.device_ = std::move(device);
  buffer.size_ = bytes;
  buffer.live_ = LiveObject("Level Zero host allocation", name);
  return buffer;
}

absl::StatusOr<Buffer> Buffer::AllocateDevice(std::shared_ptr<Device> device, uint64_t bytes,
                                              absl::string_view name) {
  ze_device_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  Buffer buffer;
  NPUBANK_RETURN_IF_ERROR(Named(ZeStatus(zeMemAllocDevice(device->context(), &desc, bytes, 0,
                                                          device->device(), &buffer.address_),
                                         "zeMemAllocDevice"),
                                name, bytes));
  buffer.device_ = std::move(device);
  buffer.size_ = bytes;
  buffer.live_ = LiveObject("Level Zero device allocation", name);
  return buffer;
}

uint64_t Buffer::reserved_bytes() const {
  constexpr uint64_t kUsualPage = 4096;
  constexpr uint64_t kMostPage = uint64_t{1} << 30;
  ze_memory_allocation_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  const ze_result_t result =
      zeMemGetAllocProperties(device_->context(), address_, &properties, nullptr);
  uint64_t page = properties.pageSize;
  if (result != ZE_RESULT_SUCCESS || page == 0 || page > kMostPage) page = kUsualPage;
  return AlignUp(uint64_t{size_}, page);
}

Buffer::~Buffer() {
  if (address_) zeMemFree(device_->context(), address_);
}

}  // namespace npubank::level_zero

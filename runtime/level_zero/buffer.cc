#include "runtime/level_zero/buffer.h"

#include "lazy_tensor/status_macros.h"
#include "runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

absl::Status Named(const absl::Status& status, absl::string_view name, uint64_t bytes) {
  return Annotate(status, absl::StrCat(name, " (", bytes, " bytes)"));
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
  return buffer;
}

Buffer::~Buffer() {
  if (address_) zeMemFree(device_->context(), address_);
}

}  // namespace npubank::level_zero

#include "npubank/runtime/software_npu/memory/memory.h"

#include <sys/mman.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "npubank/lazy_tensor/base/align.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/memory/allocation.h"
#include "npubank/runtime/software_npu/memory/backing.h"
#include "npubank/runtime/software_npu/memory/dma_buf.h"
#include "npubank/runtime/software_npu/memory/import.h"
#include "npubank/runtime/software_npu/structure_chain.h"

namespace npubank::software_npu {
namespace {

// Pages of the driver's own, and what else they need to exist.
struct Pages {
  Mapping host;
  std::optional<Mapping> driver;   // the driver's own view, where the host's is not to be touched
  std::optional<DmaBuf> buffer;    // exportable, or imported
  std::optional<BackingRange> range;  // hidden
};

class OwnMemory : public Allocation {
 public:
  OwnMemory(ze_memory_type_t type, uint64_t bytes, Pages pages, Charge charge, bool imported)
      : Allocation(charge.context(), type, pages.host.data(), bytes, pages.host.bytes()),
        charge_(std::move(charge)),
        pages_(std::move(pages)),
        imported_(imported) {}

  uint8_t* Access(uint64_t offset, uint64_t bytes, Intent) const override {
    if (!Contains(offset, bytes)) return nullptr;
    return (pages_.driver.has_value() ? pages_.driver->data() : pages_.host.data()) + offset;
  }
  const DmaBuf* exportable() const override {
    return pages_.buffer.has_value() && !imported_ ? &*pages_.buffer : nullptr;
  }

 private:
  // Before the pages, so that the bytes are counted until the pages are gone.
  Charge charge_;
  Pages pages_;
  bool imported_;
};

std::optional<Pages> Visible(uint64_t bytes) {
  std::optional<Mapping> host = Mapping::Anonymous(bytes);
  if (!host.has_value()) return std::nullopt;
  return Pages{std::move(*host), std::nullopt, std::nullopt, std::nullopt};
}

std::optional<Pages> Hidden(uint64_t bytes) {
  std::optional<BackingRange> range = BackingRange::Take(bytes);
  std::optional<Mapping> host = Mapping::Reserve(bytes);
  if (!range.has_value() || !host.has_value()) return std::nullopt;
  std::optional<Mapping> driver =
      Mapping::Shared(range->fd(), range->offset(), bytes, PROT_READ | PROT_WRITE);
  if (!driver.has_value()) return std::nullopt;
  return Pages{std::move(*host), std::move(driver), std::nullopt, std::move(range)};
}

std::optional<Pages> OfBuffer(std::optional<DmaBuf> buffer, bool hidden) {
  if (!buffer.has_value()) return std::nullopt;
  std::optional<Mapping> view =
      Mapping::Shared(buffer->fd(), 0, buffer->bytes(), PROT_READ | PROT_WRITE);
  if (!view.has_value()) return std::nullopt;
  if (!hidden) return Pages{std::move(*view), std::nullopt, std::move(buffer), std::nullopt};
  std::optional<Mapping> host = Mapping::Reserve(buffer->bytes());
  if (!host.has_value()) return std::nullopt;
  return Pages{std::move(*host), std::move(view), std::move(buffer), std::nullopt};
}

struct Request {
  std::shared_ptr<Context> context;
  ze_memory_type_t type = ZE_MEMORY_TYPE_HOST;
  const void* chain = nullptr;
  uint64_t size = 0;
  uint64_t alignment = 0;
};

bool IsHidden(const Request& request) {
  return request.type == ZE_MEMORY_TYPE_DEVICE && !GetSwitches()->host_access;
}

// What must hold of every request.
ze_result_t CheckRequest(const Request& request, void** out) {
  if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (request.size == 0) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  if ((request.alignment & (request.alignment - 1)) != 0) {
    return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t Keep(std::shared_ptr<OwnMemory> allocation, void** out) {
  void* const base = allocation->base();
  if (!AddressMap::Get().Add(std::move(allocation))) return ZE_RESULT_ERROR_UNKNOWN;
  *out = base;
  return ZE_RESULT_SUCCESS;
}

// The pages of a buffer that was exported, here or in another process, at addresses of their own.
ze_result_t ImportFd(const Request& request, const ze_external_memory_import_fd_t& import,
                     void** out) {
  if (import.flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
    return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  }
  std::optional<DmaBuf> buffer = DmaBuf::Adopt(import.fd);
  if (!buffer.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  const uint64_t bytes = buffer->bytes();
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kImport, bytes, request.context);
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  std::optional<Pages> pages = OfBuffer(std::move(buffer), IsHidden(request));
  if (!pages.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  return Keep(std::make_shared<OwnMemory>(request.type, bytes, std::move(*pages),
                                          std::move(*charge), /*imported=*/true),
              out);
}

std::optional<Pages> MakePages(const Request& request, bool exportable, uint64_t bytes) {
  if (exportable) return OfBuffer(DmaBuf::Create(bytes), IsHidden(request));
  return IsHidden(request) ? Hidden(bytes) : Visible(bytes);
}

ze_result_t Allocate(const Request& request, void** out) {
  if (const ze_result_t result = CheckRequest(request, out); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  const auto* import = FindStructure<ze_external_memory_import_fd_t>(
      request.chain, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD);
  if (import != nullptr) return ImportFd(request, *import, out);
  const auto* exported = FindStructure<ze_external_memory_export_desc_t>(
      request.chain, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC);
  if (exported != nullptr && exported->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
    return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  }
  const uint64_t page = GetSwitches()->page_size;
  if (request.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - page) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  const uint64_t bytes = AlignUp<uint64_t>(request.size, page);
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kAllocation, bytes, request.context);
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  std::optional<Pages> pages = MakePages(request, exported != nullptr, bytes);
  if (!pages.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  return Keep(std::make_shared<OwnMemory>(request.type, request.size, std::move(*pages),
                                          std::move(*charge), /*imported=*/false),
              out);
}

// Gives the caller a descriptor of its own.
ze_result_t Export(const Allocation& allocation, ze_external_memory_export_fd_t* exported) {
  if (exported->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
    return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  }
  if (allocation.exportable() == nullptr) return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
  const int fd = allocation.exportable()->Export();
  if (fd < 0) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  exported->fd = fd;
  return ZE_RESULT_SUCCESS;
}

}  // namespace

ze_result_t MemAllocHost(ze_context_handle_t handle, const ze_host_mem_alloc_desc_t* desc,
                         size_t size, size_t alignment, void** out) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (const auto* memory = FindStructure<SystemMemoryDesc>(desc->pNext, kStructureSystemMemory)) {
    if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    const bool read_only = (desc->flags & ZE_HOST_MEM_ALLOC_FLAG_BIAS_WRITE_COMBINED) != 0;
    return ImportSystemMemory(context, *memory, read_only, out);
  }
  if (desc->flags & ZE_HOST_MEM_ALLOC_FLAG_BIAS_UNCACHED) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  return Allocate({context, ZE_MEMORY_TYPE_HOST, desc->pNext, size, alignment}, out);
}

ze_result_t MemAllocDevice(ze_context_handle_t handle, const ze_device_mem_alloc_desc_t* desc,
                           size_t size, size_t alignment, ze_device_handle_t device, void** out) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr || !IsDevice(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->flags & ZE_DEVICE_MEM_ALLOC_FLAG_BIAS_UNCACHED) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  return Allocate({context, ZE_MEMORY_TYPE_DEVICE, desc->pNext, size, alignment}, out);
}

ze_result_t MemAllocShared(ze_context_handle_t handle,
                           const ze_device_mem_alloc_desc_t* device_desc,
                           const ze_host_mem_alloc_desc_t* host_desc, size_t size, size_t alignment,
                           ze_device_handle_t device, void** out) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  // Shared memory may be asked for without naming a device.
  if (context == nullptr || (device != nullptr && !IsDevice(device))) {
    return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  if (device_desc == nullptr || host_desc == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if ((device_desc->flags & ZE_DEVICE_MEM_ALLOC_FLAG_BIAS_UNCACHED) ||
      (host_desc->flags & ZE_HOST_MEM_ALLOC_FLAG_BIAS_UNCACHED)) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  return Allocate({context, ZE_MEMORY_TYPE_SHARED, device_desc->pNext, size, alignment}, out);
}

ze_result_t MemFree(ze_context_handle_t handle, void* pointer) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (pointer == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const std::optional<Place> place = AddressMap::Get().Find(context.get(), pointer);
  if (!place.has_value() || !place->allocation->IsFreedBy(pointer)) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  // Null when another thread has freed it in between.
  const auto freed = AddressMap::Get().Remove(context.get(), place->allocation->base());
  return freed == nullptr ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS;
}

ze_result_t MemGetAllocProperties(ze_context_handle_t handle, const void* pointer,
                                  ze_memory_allocation_properties_t* properties,
                                  ze_device_handle_t*) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (pointer == nullptr || properties == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const std::optional<Place> place = AddressMap::Get().Find(context.get(), pointer);
  if (!place.has_value()) return ZE_RESULT_ERROR_NOT_AVAILABLE;
  const Allocation& allocation = *place->allocation;
  auto* exported = FindStructure<ze_external_memory_export_fd_t>(
      properties->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD);
  if (exported != nullptr) {
    const ze_result_t result = Export(allocation, exported);
    if (result != ZE_RESULT_SUCCESS) return result;
  }
  properties->type = allocation.type();
  properties->id = allocation.id();
  properties->pageSize = GetSwitches()->page_size;
  return ZE_RESULT_SUCCESS;
}

ze_result_t MemGetAddressRange(ze_context_handle_t handle, const void* pointer, void** base,
                               size_t* size) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (pointer == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  const std::optional<Place> place = AddressMap::Get().Find(context.get(), pointer);
  if (!place.has_value()) return ZE_RESULT_ERROR_NOT_AVAILABLE;
  if (base != nullptr) *base = reinterpret_cast<void*>(place->allocation->device_address());
  if (size != nullptr) *size = place->allocation->bytes();
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu

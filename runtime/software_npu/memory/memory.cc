#include "npubank/runtime/software_npu/memory/memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/memory/allocation.h"
#include "npubank/runtime/software_npu/memory/backing.h"
#include "npubank/runtime/software_npu/memory/import.h"
#include "npubank/runtime/software_npu/structure_chain.h"

namespace npubank::software_npu {
namespace {

// Pages of the driver's own, and what else they need to exist.
struct Pages {
  Mapping host;
  std::optional<Mapping> driver;   // the driver's own view, where the host's is not to be touched
  std::optional<File> file;        // exportable, or imported
  std::optional<FileRange> range;  // hidden
};

class OwnMemory : public Allocation {
 public:
  OwnMemory(ze_memory_type_t type, Pages pages, Charge charge)
      : Allocation(charge.context(), type, pages.host.data(), pages.host.bytes()),
        charge_(std::move(charge)),
        pages_(std::move(pages)) {}

  uint8_t* Access(uint64_t offset, uint64_t bytes, Intent) const override {
    if (!Contains(offset, bytes)) return nullptr;
    return (pages_.driver.has_value() ? pages_.driver->data() : pages_.host.data()) + offset;
  }
  int fd() const override { return pages_.file.has_value() ? pages_.file->fd() : -1; }

 private:
  // Before the pages, so that the bytes are counted until the pages are gone.
  Charge charge_;
  Pages pages_;
};

std::optional<Pages> Visible(uint64_t bytes) {
  std::optional<Mapping> host = Mapping::Anonymous(bytes);
  if (!host.has_value()) return std::nullopt;
  return Pages{std::move(*host), std::nullopt, std::nullopt, std::nullopt};
}

std::optional<Pages> Hidden(uint64_t bytes) {
  std::optional<FileRange> range = FileRange::Take(bytes);
  std::optional<Mapping> host = Mapping::Reserve(bytes);
  if (!range.has_value() || !host.has_value()) return std::nullopt;
  std::optional<Mapping> driver =
      Mapping::Shared(range->fd(), range->offset(), bytes, PROT_READ | PROT_WRITE);
  if (!driver.has_value()) return std::nullopt;
  return Pages{std::move(*host), std::move(driver), std::nullopt, std::move(range)};
}

std::optional<Pages> OfFile(std::optional<File> file, uint64_t bytes, bool hidden) {
  if (!file.has_value()) return std::nullopt;
  std::optional<Mapping> view = Mapping::Shared(file->fd(), 0, bytes, PROT_READ | PROT_WRITE);
  if (!view.has_value()) return std::nullopt;
  if (!hidden) return Pages{std::move(*view), std::nullopt, std::move(file), std::nullopt};
  std::optional<Mapping> host = Mapping::Reserve(bytes);
  if (!host.has_value()) return std::nullopt;
  return Pages{std::move(*host), std::move(view), std::move(file), std::nullopt};
}

struct Request {
  std::shared_ptr<Context> context;
  ze_memory_type_t type = ZE_MEMORY_TYPE_HOST;
  const void* chain = nullptr;
  uint64_t size = 0;
  uint64_t alignment = 0;
};

// What must hold of every request, and the bytes it rounds up to.
ze_result_t CheckRequest(const Request& request, void** out, uint64_t* bytes) {
  if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (request.size == 0) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  if ((request.alignment & (request.alignment - 1)) != 0) {
    return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
  }
  const uint64_t page = GetSwitches()->page_size;
  if (request.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - page) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  *bytes = (request.size + page - 1) / page * page;
  return ZE_RESULT_SUCCESS;
}

std::optional<Pages> MakePages(const Request& request, uint64_t bytes) {
  const bool hidden = request.type == ZE_MEMORY_TYPE_DEVICE && !GetSwitches()->host_access;
  const auto* exported = FindStructure<ze_external_memory_export_desc_t>(
      request.chain, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC);
  if (exported != nullptr) return OfFile(File::InMemory(bytes), bytes, hidden);
  return hidden ? Hidden(bytes) : Visible(bytes);
}

ze_result_t Adopt(const Request& request, std::optional<Pages> pages, Charge charge, void** out) {
  if (!pages.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  auto allocation = std::make_shared<OwnMemory>(request.type, std::move(*pages), std::move(charge));
  void* const base = allocation->base();
  if (!AddressMap::Get().Add(std::move(allocation))) return ZE_RESULT_ERROR_UNKNOWN;
  *out = base;
  return ZE_RESULT_SUCCESS;
}

// The pages behind a file descriptor; the context's own, when they came from it.
ze_result_t ImportFd(const Request& request, const ze_external_memory_import_fd_t& import,
                     uint64_t bytes, void** out) {
  if ((import.flags & ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) == 0) {
    return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
  }
  struct stat status = {};
  if (fstat(import.fd, &status) != 0 || status.st_size < static_cast<int64_t>(bytes)) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  if (const auto own = AddressMap::Get().FindFile(request.context.get(), import.fd)) {
    *out = own->base();
    return ZE_RESULT_SUCCESS;
  }
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kAllocation, bytes, request.context);
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  const bool hidden = request.type == ZE_MEMORY_TYPE_DEVICE && !GetSwitches()->host_access;
  return Adopt(request, OfFile(File::Duplicate(import.fd), bytes, hidden), std::move(*charge), out);
}

ze_result_t Allocate(const Request& request, void** out) {
  uint64_t bytes = 0;
  if (const ze_result_t result = CheckRequest(request, out, &bytes); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  const auto* import = FindStructure<ze_external_memory_import_fd_t>(
      request.chain, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD);
  if (import != nullptr) return ImportFd(request, *import, bytes, out);
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kAllocation, bytes, request.context);
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  return Adopt(request, MakePages(request, bytes), std::move(*charge), out);
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
  if (!place.has_value() || place->allocation->pointer() != pointer) {
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
    if ((exported->flags & ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) == 0 || allocation.fd() < 0) {
      return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
    }
    exported->fd = allocation.fd();
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

#include "npubank/runtime/software_npu/memory/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {
namespace {

int ProtectionFor(ze_memory_access_attribute_t access) {
  switch (access) {
    case ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE:
      return PROT_READ | PROT_WRITE;
    case ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY:
      return PROT_READ;
    default:
      return PROT_NONE;
  }
}

bool IsAccess(ze_memory_access_attribute_t access) {
  return access == ZE_MEMORY_ACCESS_ATTRIBUTE_NONE ||
         access == ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE ||
         access == ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY;
}

bool IsWholeTiles(uint64_t bytes) {
  return bytes != 0 && bytes % GetSwitches()->tile_size == 0 && bytes <= (uint64_t{1} << 46);
}

// The context of a call, or why there is none.
ze_result_t FindContext(ze_context_handle_t handle, std::shared_ptr<Context>* context) {
  if (!GetSwitches()->virtual_memory) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  *context = Live<Context>().Find(handle);
  return *context == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_HANDLE : ZE_RESULT_SUCCESS;
}

struct Range {
  std::shared_ptr<Reservation> reservation;
  uint64_t offset = 0;
};

// The reservation that [pointer, pointer + size) lies in, whole tiles of it.
ze_result_t FindRange(ze_context_handle_t handle, const void* pointer, uint64_t size,
                      Range* range) {
  std::shared_ptr<Context> context;
  if (const ze_result_t result = FindContext(handle, &context); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (pointer == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (size == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  const std::optional<Place> place = AddressMap::Get().Find(context.get(), pointer);
  if (!place.has_value()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  range->reservation = std::dynamic_pointer_cast<Reservation>(place->allocation);
  range->offset = place->offset;
  if (range->reservation == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (place->offset % GetSwitches()->tile_size != 0) return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
  if (!IsWholeTiles(size)) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  if (size > range->reservation->bytes() - place->offset) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return ZE_RESULT_SUCCESS;
}

}  // namespace

Reservation::Reservation(Mapping host, std::optional<Mapping> driver, Charge charge)
    : Allocation(charge.context(), ZE_MEMORY_TYPE_DEVICE, host.data(), host.bytes(), host.bytes()),
      charge_(std::move(charge)),
      host_(std::move(host)),
      driver_(std::move(driver)) {}

Reservation::Pieces::const_iterator Reservation::PieceAt(uint64_t offset) const {
  auto piece = pieces_.upper_bound(offset);
  if (piece == pieces_.begin()) return pieces_.end();
  --piece;
  return offset - piece->first < piece->second.bytes ? piece : pieces_.end();
}

bool Reservation::IsWholePieces(uint64_t offset, uint64_t bytes) const {
  uint64_t next = offset;
  for (auto piece = pieces_.find(offset); piece != pieces_.end() && piece->first == next; ++piece) {
    next += piece->second.bytes;
    if (next >= offset + bytes) return next == offset + bytes;
  }
  return false;
}

uint8_t* Reservation::Access(uint64_t offset, uint64_t bytes, Intent intent) const {
  if (!Contains(offset, bytes)) return nullptr;
  uint64_t next = offset;
  while (next < offset + bytes) {
    const auto piece = PieceAt(next);
    if (piece == pieces_.end()) return nullptr;
    const ze_memory_access_attribute_t access = piece->second.access;
    if (access == ZE_MEMORY_ACCESS_ATTRIBUTE_NONE) return nullptr;
    if (access == ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY && intent == Intent::kWrite) return nullptr;
    next = piece->first + piece->second.bytes;
  }
  return (driver_.has_value() ? driver_->data() : host_.data()) + offset;
}

ze_result_t Reservation::Map(uint64_t offset, uint64_t bytes,
                             std::shared_ptr<PhysicalMemory> physical, uint64_t physical_offset,
                             ze_memory_access_attribute_t access) {
  const BackingRange& range = physical->range();
  if (physical_offset > range.bytes() || bytes > range.bytes() - physical_offset) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  const auto next = pieces_.lower_bound(offset);
  if (PieceAt(offset) != pieces_.end() || (next != pieces_.end() && next->first < offset + bytes)) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  Mapping& view = driver_.has_value() ? *driver_ : host_;
  if (!view.MapInside(offset, range.fd(), range.offset() + physical_offset, bytes,
                      ProtectionFor(access))) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  pieces_[offset] = {bytes, std::move(physical), access};
  return ZE_RESULT_SUCCESS;
}

ze_result_t Reservation::Unmap(uint64_t offset, uint64_t bytes) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  if (!IsWholePieces(offset, bytes)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Mapping& view = driver_.has_value() ? *driver_ : host_;
  if (!view.ClearInside(offset, bytes)) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  pieces_.erase(pieces_.find(offset), pieces_.lower_bound(offset + bytes));
  return ZE_RESULT_SUCCESS;
}

ze_result_t Reservation::SetAccess(uint64_t offset, uint64_t bytes,
                                   ze_memory_access_attribute_t access) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  if (!IsWholePieces(offset, bytes)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Mapping& view = driver_.has_value() ? *driver_ : host_;
  if (!view.ProtectInside(offset, bytes, ProtectionFor(access))) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  for (auto piece = pieces_.find(offset); piece != pieces_.end() && piece->first < offset + bytes;
       ++piece) {
    piece->second.access = access;
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t Reservation::GetAccess(uint64_t offset, uint64_t bytes,
                                   ze_memory_access_attribute_t* access,
                                   size_t* equal_bytes) const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const uint64_t most = offset + bytes;
  // The access at `at`, and where the piece or the hole that it lies in ends.
  const auto look = [&](uint64_t at, uint64_t* end) {
    const auto piece = PieceAt(at);
    if (piece != pieces_.end()) {
      *end = piece->first + piece->second.bytes;
      return piece->second.access;
    }
    const auto next = pieces_.lower_bound(at);
    *end = next == pieces_.end() ? most : next->first;
    return ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
  };
  uint64_t end = offset;
  *access = look(offset, &end);
  uint64_t next = end;
  while (end < most && look(end, &next) == *access) end = next;
  *equal_bytes = std::min(end, most) - offset;
  return ZE_RESULT_SUCCESS;
}

bool Reservation::empty() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return pieces_.empty();
}

ze_result_t PhysicalMemCreate(ze_context_handle_t handle, ze_device_handle_t device,
                              ze_physical_mem_desc_t* desc, ze_physical_mem_handle_t* out) {
  std::shared_ptr<Context> context;
  if (const ze_result_t result = FindContext(handle, &context); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (!IsDevice(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (!IsWholeTiles(desc->size)) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  std::optional<Charge> charge =
      Charge::Take(Charge::Kind::kPhysical, desc->size, std::move(context));
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  std::optional<BackingRange> range = BackingRange::Take(desc->size);
  if (!range.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  *out = Live<PhysicalMemory>().Add(
      std::make_shared<PhysicalMemory>(std::move(*range), std::move(*charge)));
  return ZE_RESULT_SUCCESS;
}

ze_result_t PhysicalMemDestroy(ze_context_handle_t handle, ze_physical_mem_handle_t memory) {
  std::shared_ptr<Context> context;
  if (const ze_result_t result = FindContext(handle, &context); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  const std::shared_ptr<PhysicalMemory> physical = Live<PhysicalMemory>().Find(memory);
  if (physical == nullptr || physical->context() != context) {
    return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  Live<PhysicalMemory>().Remove(memory);
  return ZE_RESULT_SUCCESS;
}

ze_result_t VirtualMemReserve(ze_context_handle_t handle, const void*, size_t size, void** out) {
  std::shared_ptr<Context> context;
  if (const ze_result_t result = FindContext(handle, &context); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (!IsWholeTiles(size)) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kReservation, size, std::move(context));
  std::optional<Mapping> host = Mapping::Reserve(size);
  if (!charge.has_value() || !host.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  std::optional<Mapping> driver;
  if (!GetSwitches()->host_access) {
    driver = Mapping::Reserve(size);
    if (!driver.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  auto reservation =
      std::make_shared<Reservation>(std::move(*host), std::move(driver), std::move(*charge));
  void* const base = reservation->base();
  if (!AddressMap::Get().Add(std::move(reservation))) return ZE_RESULT_ERROR_UNKNOWN;
  *out = base;
  return ZE_RESULT_SUCCESS;
}

ze_result_t VirtualMemFree(ze_context_handle_t handle, const void* pointer, size_t size) {
  Range range;
  if (const ze_result_t result = FindRange(handle, pointer, size, &range);
      result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (range.offset != 0 || size != range.reservation->bytes()) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (!range.reservation->empty()) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  AddressMap::Get().Remove(range.reservation->context().get(), pointer);
  return ZE_RESULT_SUCCESS;
}

ze_result_t VirtualMemQueryPageSize(ze_context_handle_t handle, ze_device_handle_t device,
                                    size_t size, size_t* page_size) {
  std::shared_ptr<Context> context;
  if (const ze_result_t result = FindContext(handle, &context); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (!IsDevice(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (page_size == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (size == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  *page_size = GetSwitches()->tile_size;
  return ZE_RESULT_SUCCESS;
}

ze_result_t VirtualMemMap(ze_context_handle_t handle, const void* pointer, size_t size,
                          ze_physical_mem_handle_t memory, size_t offset,
                          ze_memory_access_attribute_t access) {
  Range range;
  if (const ze_result_t result = FindRange(handle, pointer, size, &range);
      result != ZE_RESULT_SUCCESS) {
    return result;
  }
  std::shared_ptr<PhysicalMemory> physical = Live<PhysicalMemory>().Find(memory);
  if (physical == nullptr || physical->context() != range.reservation->context()) {
    return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  if (!IsAccess(access)) return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  if (offset % GetSwitches()->tile_size != 0) return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
  return range.reservation->Map(range.offset, size, std::move(physical), offset, access);
}

ze_result_t VirtualMemUnmap(ze_context_handle_t handle, const void* pointer, size_t size) {
  Range range;
  if (const ze_result_t result = FindRange(handle, pointer, size, &range);
      result != ZE_RESULT_SUCCESS) {
    return result;
  }
  return range.reservation->Unmap(range.offset, size);
}

ze_result_t VirtualMemSetAccessAttribute(ze_context_handle_t handle, const void* pointer,
                                         size_t size, ze_memory_access_attribute_t access) {
  Range range;
  if (const ze_result_t result = FindRange(handle, pointer, size, &range);
      result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (!IsAccess(access)) return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  return range.reservation->SetAccess(range.offset, size, access);
}

ze_result_t VirtualMemGetAccessAttribute(ze_context_handle_t handle, const void* pointer,
                                         size_t size, ze_memory_access_attribute_t* access,
                                         size_t* equal_bytes) {
  Range range;
  if (const ze_result_t result = FindRange(handle, pointer, size, &range);
      result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (access == nullptr || equal_bytes == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return range.reservation->GetAccess(range.offset, size, access, equal_bytes);
}

}  // namespace npubank::software_npu

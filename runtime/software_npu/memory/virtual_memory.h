// Virtual memory: addresses apart from the pages behind them.
//
// Off unless NPUBANK_NPU_VIRTUAL_MEMORY=1; then every entry point below is UNSUPPORTED_FEATURE, as
// on a real NPU. Sizes and addresses are multiples of NPUBANK_NPU_TILE_SIZE, which
// zeVirtualMemQueryPageSize tells. Physical memory takes capacity, reservations take addresses.
// Physical memory that is destroyed while mapped goes when it is unmapped.
// Mapping changes wait for commands at work in the same reservation.
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_VIRTUAL_MEMORY_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_VIRTUAL_MEMORY_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/memory/allocation.h"
#include "npubank/runtime/software_npu/memory/backing.h"

namespace npubank::software_npu {

class PhysicalMemory {
 public:
  using Handle = ze_physical_mem_handle_t;
  static constexpr HandleKind kHandleKind = HandleKind::kPhysicalMemory;
  static constexpr bool kUsableAfterFork = true;

  PhysicalMemory(BackingRange range, Charge charge)
      : charge_(std::move(charge)),
        counted_(Counted::Kind::kAskedFor, range.bytes(), charge_.context()),
        range_(std::move(range)) {}
  virtual ~PhysicalMemory() = default;

  const BackingRange& range() const { return range_; }
  const std::shared_ptr<Context>& context() const { return charge_.context(); }

 private:
  Charge charge_;
  Counted counted_;
  BackingRange range_;
};

class Reservation : public Allocation {
 public:
  // `driver` is the driver's own view where the host may not touch the memory.
  Reservation(Mapping host, std::optional<Mapping> driver, Charge charge);

  uint8_t* Access(uint64_t offset, uint64_t bytes, Intent intent) const override;
  std::shared_mutex* mapping_mutex() const override { return &mutex_; }
  bool IsFreedBy(const void*) const override { return false; }
  uint64_t counted() const override { return 0; }

  ze_result_t Map(uint64_t offset, uint64_t bytes, std::shared_ptr<PhysicalMemory> physical,
                  uint64_t physical_offset, ze_memory_access_attribute_t access);
  // Whole mappings only.
  ze_result_t Unmap(uint64_t offset, uint64_t bytes);
  ze_result_t SetAccess(uint64_t offset, uint64_t bytes, ze_memory_access_attribute_t access);
  // Addresses without memory have no access.
  ze_result_t GetAccess(uint64_t offset, uint64_t bytes, ze_memory_access_attribute_t* access,
                        size_t* equal_bytes) const;
  bool empty() const;

 private:
  struct Piece {
    uint64_t bytes = 0;
    std::shared_ptr<PhysicalMemory> physical;
    ze_memory_access_attribute_t access = ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by offset

  // The piece that holds this offset, or end.
  Pieces::const_iterator PieceAt(uint64_t offset) const;
  // Whether [offset, offset + bytes) is exactly some pieces, without holes between them.
  bool IsWholePieces(uint64_t offset, uint64_t bytes) const;

  // Written under mutex_ held alone, read under mutex_ held shared.
  mutable std::shared_mutex mutex_;
  Charge charge_;
  Mapping host_;
  std::optional<Mapping> driver_;
  Pieces pieces_;
};

ze_result_t PhysicalMemCreate(ze_context_handle_t handle, ze_device_handle_t device,
                              ze_physical_mem_desc_t* desc, ze_physical_mem_handle_t* out);
ze_result_t PhysicalMemDestroy(ze_context_handle_t handle, ze_physical_mem_handle_t memory);
ze_result_t VirtualMemReserve(ze_context_handle_t handle, const void* start, size_t size,
                              void** out);
ze_result_t VirtualMemFree(ze_context_handle_t handle, const void* pointer, size_t size);
ze_result_t VirtualMemQueryPageSize(ze_context_handle_t handle, ze_device_handle_t device,
                                    size_t size, size_t* page_size);
ze_result_t VirtualMemMap(ze_context_handle_t handle, const void* pointer, size_t size,
                          ze_physical_mem_handle_t memory, size_t offset,
                          ze_memory_access_attribute_t access);
ze_result_t VirtualMemUnmap(ze_context_handle_t handle, const void* pointer, size_t size);
ze_result_t VirtualMemSetAccessAttribute(ze_context_handle_t handle, const void* pointer,
                                         size_t size, ze_memory_access_attribute_t access);
ze_result_t VirtualMemGetAccessAttribute(ze_context_handle_t handle, const void* pointer,
                                         size_t size, ze_memory_access_attribute_t* access,
                                         size_t* equal_bytes);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_VIRTUAL_MEMORY_H_

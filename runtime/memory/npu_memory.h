// NpuMemory: DeviceMemory on Level Zero, one committed allocation per tensor.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<NpuMemory> memory, NpuMemory::Create(device));
//   auto bank = Bank::Create(memory, {});
//
// Written in place where the device is integrated (its memory is the host's); otherwise through a
// bounded ring of staging buffers (upload.h). Rounds to the driver's 4 KiB pages. Threads and
// errors: as device_memory.h says.
#ifndef NPUBANK_RUNTIME_MEMORY_NPU_MEMORY_H_
#define NPUBANK_RUNTIME_MEMORY_NPU_MEMORY_H_

#include <memory>

#include "bank/device_memory.h"
#include "runtime/level_zero/device.h"
#include "runtime/memory/upload.h"

namespace npubank {

class NpuMemory : public DeviceMemory {
 public:
  static absl::StatusOr<std::shared_ptr<NpuMemory>> Create(
      std::shared_ptr<level_zero::Device> device);

  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override;
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override;
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override;
  DeviceUsage Usage() const override;
  absl::StatusOr<uint64_t> DriverBytes() const override;

 private:
  struct Books;
  class Allocation;
  explicit NpuMemory(std::shared_ptr<level_zero::Device> device);
  std::shared_ptr<level_zero::Device> device_;
  std::shared_ptr<Books> books_;
  Staging staging_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_NPU_MEMORY_H_

// NpuMemory: DeviceMemory on Level Zero, by the strategy that the driver and the user allow.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<NpuMemory> memory, NpuMemory::Create(device));
//   NPUBANK_ASSIGN_OR_RETURN(auto weight, memory->Allocate(bytes, "wq"));
//
// Npu::Open (runtime/npu.h) makes one beside its device. Without options it is auto.
// What a driver can do is asked, never assumed:
//   auto        tiled where there is virtual memory, else placed; files imported where they can be
//   committed   one allocation of the driver per tensor                               (committed.h)
//   placed      slabs, best fit                                                       (placed.h)
//   tiled       tiles mapped behind reserved addresses; without virtual memory placed (tiled.h)
//   imported    as auto: constants are the file's own pages; all else tiled or placed (imports.h)
// committed, placed and tiled never import. Where a driver lacks something the next best is taken,
// and that is said: in notices(), and to `notice`.
//
// An address is a multiple of what a tensor's hints ask for, up to 4096: drivers put everything on a page
// of theirs and promise no more, whatever is asked of them. There are no pools.
//
// Bytes are written in place where the host may touch device memory, else through a bounded ring of
// staging buffers (upload.h). Memory kept for reuse (tiles, rings) is given back by Trim, when
// an allocation finds no room, and when the last allocation is freed. A file that the driver
// refused to import is copied, and not asked for again before Trim.
// Usage() counts what tensors cost (live) and what the driver gave for them (held), in whole pages;
// pages of imported files are in neither. DriverBytes() is the driver's own count: bytes as they
// were asked for, imports, and command buffers and event pools of the driver.
// Threads and errors: as device_memory.h says; no lock is held over a driver call. What reads or
// writes must be an allocation of this object.
#ifndef NPUBANK_RUNTIME_MEMORY_NPU_MEMORY_H_
#define NPUBANK_RUNTIME_MEMORY_NPU_MEMORY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "npubank/bank/device_memory.h"
#include "npubank/runtime/level_zero/device.h"

namespace npubank {

enum class MemoryStrategy { kAuto, kCommitted, kPlaced, kTiled, kImported };
// "auto", "committed", "placed", "tiled", "imported".
std::optional<MemoryStrategy> MemoryStrategyFromName(absl::string_view name);
absl::string_view MemoryStrategyName(MemoryStrategy strategy);

struct NpuMemoryOptions {
  MemoryStrategy strategy = MemoryStrategy::kAuto;
  // Brings imported pages into memory in the background, before the first inference needs them.
  bool read_ahead = true;
  // What the device wants every argument's address to be a multiple of: a power of two up to 4096, a
  // driver's page. None given: what the device says of itself (Device::argument_alignment). What is stored
  // in a file at another multiple, or across the places of its element type, is copied, not imported; what
  // is allocated lies at multiples of 64 at least.
  std::optional<uint64_t> argument_alignment = std::nullopt;
  // Told of each thing that the driver lacks, once: in Create, or by the first Import that it
  // refuses, on that thread. By default Log (lazy_tensor/base/log.h), each once per process.
  std::function<void(absl::string_view)> notice = nullptr;
};

class NpuMemory : public DeviceMemory {
 public:
  // InvalidArgument for an alignment that it cannot give; those of the driver.
  static absl::StatusOr<std::shared_ptr<NpuMemory>> Create(
      std::shared_ptr<level_zero::Device> device, NpuMemoryOptions options = {});

  // The device's name and the strategy.
  std::string name() const override;
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override;
  absl::Status CheckHints(const MemoryHints& hints) const override;
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> AllocateAs(uint64_t bytes,
                                                               absl::string_view name,
                                                               const MemoryHints& hints) override;
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Import(std::shared_ptr<Source> source,
                                                           uint64_t offset, uint64_t bytes,
                                                           absl::string_view name) override;
  bool CanImport(const Source& source, uint64_t offset, uint64_t bytes) const override;
  std::unique_ptr<ImportPlan> PlanImports(absl::Span<const ImportRange> ranges) override;
  DeviceMemoryTraits traits() const override;
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override;
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override;
  void Trim() override;
  DeviceUsage Usage() const override;
  absl::StatusOr<uint64_t> DriverBytes() const override;

  // What Allocate uses: kCommitted, kPlaced or kTiled.
  MemoryStrategy strategy() const;
  // Whether Import may succeed.
  bool imports() const;
  // What the driver lacks of what was asked for, as far as is known by now; each thing once.
  std::vector<std::string> notices() const;

 private:
  struct Core;
  class Allocation;
  class OwnAllocation;
  class ImportedAllocation;
  explicit NpuMemory(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const std::shared_ptr<Core> core_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_NPU_MEMORY_H_

// Npu: an NPU ready for use: its device, its memory and the threads that evaluate weights for it,
// which belong together and are opened by one call.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Npu> npu, Npu::Open());
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Bank> bank, npu->MakeBank({}));
//
// This is what the layers above take: MakeBank gives a bank on its memory, and Session::Load is to
// take the Npu in place of a device and a memory, Session::Load(npu, bank, ...), so that nobody can
// hand it a memory that belongs to another device. The parts are there for who needs them alone.
//
// Ownership: shared. What is made from its parts keeps those alive, so an Npu may be dropped before
// its banks. Threads: any; a device runs a driver thread, so do not fork() while an Npu lives.
// Errors: those of level_zero::Device::Open (no driver, no NPU: the message says what to install)
// and of NpuMemory::Create.
// Cost: opening asks the driver what it can do, a few allocations that are freed at once.
#ifndef NPUBANK_RUNTIME_NPU_H_
#define NPUBANK_RUNTIME_NPU_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"

namespace npubank {

struct NpuOptions {
  // The hardware when there is one, else the software NPU.
  level_zero::DeviceChoice device = level_zero::DeviceChoice::kAuto;
  NpuMemoryOptions memory = {};
  // Threads that evaluate weights; 0: on the thread that loads; none given: one per core.
  std::optional<int> workers = std::nullopt;
};

class Npu {
 public:
  // InvalidArgument for a negative number of workers.
  static absl::StatusOr<std::shared_ptr<Npu>> Open(NpuOptions options = {});

  // Never null.
  const std::shared_ptr<level_zero::Device>& device() const { return device_; }
  const std::shared_ptr<NpuMemory>& memory() const { return memory_; }
  const std::shared_ptr<Workers>& workers() const { return workers_; }

  // A bank on memory(). Evaluates on workers(), unless the options bring workers of their own.
  // Several banks may share one Npu; each counts only what is its own.
  absl::StatusOr<std::shared_ptr<Bank>> MakeBank(BankOptions options) const;

 private:
  Npu() = default;

  std::shared_ptr<level_zero::Device> device_;
  std::shared_ptr<NpuMemory> memory_;
  std::shared_ptr<Workers> workers_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_NPU_H_

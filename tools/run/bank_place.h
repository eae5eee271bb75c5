// BankPlace: the device and the bank that models are loaded on.
//
//   NPUBANK_ASSIGN_OR_RETURN(BankPlace place,
//                            BankPlace::Open(level_zero::DeviceChoice::kAuto, /*workers=*/2,
//                                            {.strategy = MemoryStrategy::kTiled},
//                                            {.budget_bytes = 1 << 30}));
//
// Copies share the same device and bank. Errors: those of Npu::Open.
#ifndef NPUBANK_TOOLS_RUN_BANK_PLACE_H_
#define NPUBANK_TOOLS_RUN_BANK_PLACE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/runtime/npu.h"

namespace npubank {

struct BankPlace {
  std::shared_ptr<Npu> npu;
  // The parts of it.
  std::shared_ptr<level_zero::Device> device;
  std::shared_ptr<NpuMemory> memory;
  std::shared_ptr<Bank> bank;

  // `workers` threads evaluate: they become those of `options`. What the driver lacks is said by
  // reports, not by the memory's notice.
  static absl::StatusOr<BankPlace> Open(level_zero::DeviceChoice choice, int workers,
                                        const NpuMemoryOptions& memory, BankOptions options = {});

  // The most the driver held, by its own count where it keeps one, else as the memory asked for it.
  uint64_t PeakBytes() const;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_BANK_PLACE_H_

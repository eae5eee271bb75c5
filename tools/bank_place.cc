#include "npubank/tools/bank_place.h"

#include <utility>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/software_npu_extension.h"

namespace npubank {

absl::StatusOr<BankPlace> BankPlace::Open(level_zero::DeviceChoice choice, int workers,
                                          MemoryStrategy strategy, BankOptions options) {
  BankPlace place;
  NPUBANK_ASSIGN_OR_RETURN(place.device, level_zero::Device::Open(choice));
  NpuMemoryOptions memory;
  memory.strategy = strategy;
  memory.notice = [](absl::string_view) {};  // reports say it: memory->notices()
  NPUBANK_ASSIGN_OR_RETURN(place.memory, NpuMemory::Create(place.device, std::move(memory)));
  options.workers = std::make_shared<ThreadWorkers>(workers);
  place.bank = Bank::Create(place.memory, std::move(options));
  return place;
}

uint64_t BankPlace::PeakBytes() const {
  if (device->software() == nullptr) return memory->Usage().peak_held_bytes;
  level_zero::SoftwareNpuStatistics statistics;
  device->software()->pfnGetStatistics(&statistics);
  return statistics.peak_bytes;
}

}  // namespace npubank

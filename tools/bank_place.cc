#include "npubank/tools/bank_place.h"

#include <utility>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/software_npu_extension.h"

namespace npubank {

absl::StatusOr<BankPlace> BankPlace::Open(level_zero::DeviceChoice choice, int workers,
                                          MemoryStrategy strategy, BankOptions options) {
  NpuOptions npu_options = {.device = choice, .workers = workers};
  npu_options.memory.strategy = strategy;
  npu_options.memory.notice = [](absl::string_view) {};  // reports say it: memory->notices()
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Npu> npu, Npu::Open(std::move(npu_options)));
  BankPlace place = {.npu = npu, .device = npu->device(), .memory = npu->memory(), .bank = nullptr};
  NPUBANK_ASSIGN_OR_RETURN(place.bank, npu->MakeBank(std::move(options)));
  return place;
}

uint64_t BankPlace::PeakBytes() const {
  if (device->software() == nullptr) return memory->Usage().peak_held_bytes;
  level_zero::SoftwareNpuStatistics statistics;
  device->software()->pfnGetStatistics(&statistics);
  return statistics.peak_bytes;
}

}  // namespace npubank

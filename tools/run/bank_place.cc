#include "npubank/tools/run/bank_place.h"

#include <algorithm>
#include <utility>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/software_npu_extension.h"

namespace npubank {

absl::StatusOr<BankPlace> BankPlace::Open(level_zero::DeviceChoice choice, int workers,
                                          const NpuMemoryOptions& memory, BankOptions options) {
  NpuOptions npu_options = {.device = choice, .memory = memory, .workers = workers};
  npu_options.memory.notice = [](absl::string_view) {};  // reports say it: memory->notices()
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Npu> npu, Npu::Open(std::move(npu_options)));
  BankPlace place = {.npu = npu, .device = npu->device(), .memory = npu->memory(), .bank = nullptr};
  NPUBANK_ASSIGN_OR_RETURN(place.bank, npu->MakeBank(std::move(options)));
  return place;
}

uint64_t BankPlace::PeakBytes() const {
  uint64_t peak = memory->Usage().peak_held_bytes;
  if (device->software() != nullptr) {
    level_zero::SoftwareNpuStatistics statistics;
    device->software()->pfnGetStatistics(&statistics);
    peak = statistics.peak_bytes;
  }
  // What a driver counts now has imports and buffers of its own, which no peak above has.
  return std::max(peak, device->AllocatedBytes().value_or(0));
}

}  // namespace npubank

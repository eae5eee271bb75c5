#include "npubank/bank/device_memory.h"

namespace npubank {

absl::StatusOr<std::unique_ptr<DeviceAllocation>> DeviceMemory::Import(std::shared_ptr<Source>,
                                                                       uint64_t, uint64_t,
                                                                       absl::string_view) {
  return absl::UnimplementedError("this device memory cannot import the pages of a file");
}

bool DeviceMemory::CanImport(const Source&, uint64_t, uint64_t) const { return false; }

std::unique_ptr<ImportPlan> DeviceMemory::PlanImports(absl::Span<const ImportRange>) {
  return nullptr;
}

}  // namespace npubank

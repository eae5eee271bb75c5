#include "npubank/bank/device_memory.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

std::string MemoryHints::ToString() const {
  const std::string where =
      alignment == 0 ? "anywhere" : absl::StrCat("at a multiple of ", alignment);
  return pool == 0 ? where : absl::StrCat(where, ", in pool ", pool);
}

absl::Status DeviceMemory::CheckHints(const MemoryHints& hints) const {
  const uint64_t alignment = traits().argument_alignment;
  if (hints.alignment <= alignment && hints.pool == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(name(), " puts nothing ", hints.ToString(),
                                               ": its addresses are multiples of ", alignment,
                                               ", and it has no pools"));
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> DeviceMemory::AllocateAs(
    uint64_t bytes, absl::string_view name, const MemoryHints& hints) {
  NPUBANK_RETURN_IF_ERROR(CheckHints(hints));
  return Allocate(bytes, name);
}

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

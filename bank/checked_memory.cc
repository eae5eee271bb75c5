#include "npubank/bank/checked_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

absl::Status CheckedMemory::Misbehaved(absl::string_view what, absl::string_view how) const {
  return absl::InternalError(
      absl::StrCat("the device memory '", name(), "' misbehaves: ", what, " ", how));
}

CheckedMemory::Allocated CheckedMemory::Checked(Allocated allocated, uint64_t bytes,
                                                uint64_t least_reserved,
                                                absl::string_view name,
                                                const MemoryHints& hints) const {
  NPUBANK_RETURN_IF_ERROR(allocated.status());
  const std::string what = absl::StrCat(bytes, " bytes for '", name, "'");
  const DeviceAllocation* const memory = allocated->get();
  if (memory == nullptr) return Misbehaved(what, "came without an allocation");
  if (memory->bytes() != bytes) return Misbehaved(what, absl::StrCat("came as ", memory->bytes()));
  if (memory->reserved_bytes() < least_reserved)
    return Misbehaved(what, absl::StrCat("came as ", memory->reserved_bytes(), " reserved ones"));
  const auto address = reinterpret_cast<uintptr_t>(memory->address());
  if (address == 0) return Misbehaved(what, "came without an address");
  const uint64_t alignment =
      std::max<uint64_t>({memory_->traits().argument_alignment, hints.alignment, 1});
  if (address % alignment != 0)
    return Misbehaved(what, absl::StrCat("came at an address that is no multiple of ", alignment));
  return allocated;
}

CheckedMemory::Allocated CheckedMemory::Allocate(uint64_t bytes, absl::string_view name) {
  return Checked(memory_->Allocate(bytes, name), bytes, /*least_reserved=*/bytes, name);
}

CheckedMemory::Allocated CheckedMemory::AllocateAs(uint64_t bytes, absl::string_view name,
                                                   const MemoryHints& hints) {
  return Checked(memory_->AllocateAs(bytes, name, hints), bytes, /*least_reserved=*/bytes, name,
                 hints);
}

CheckedMemory::Allocated CheckedMemory::Import(std::shared_ptr<Source> source, uint64_t offset,
                                               uint64_t bytes, absl::string_view name) {
  return Checked(memory_->Import(std::move(source), offset, bytes, name), bytes,
                 /*least_reserved=*/0, name);
}

absl::Status CheckedMemory::Write(DeviceAllocation& memory, ProduceBytes produce) {
  const uint64_t bytes = memory.bytes();
  const std::string what = absl::StrCat("a write of ", bytes, " bytes");
  uint64_t done = 0;
  absl::Status failure;  // of produce, or of how it was called
  const absl::Status written =
      memory_->Write(memory, [&](uint64_t offset, absl::Span<std::byte> out) {
        if (!failure.ok()) return failure;
        if (offset != done || out.size() > bytes - done || out.data() == nullptr) {
          failure = Misbehaved(
              what, absl::StrCat("asked for ", out.size(), " at ", offset, " when it had ", done));
        } else {
          failure = produce(offset, out);
          if (failure.ok()) done += out.size();
        }
        return failure;
      });
  NPUBANK_RETURN_IF_ERROR(failure);
  NPUBANK_RETURN_IF_ERROR(written);
  if (done == bytes) return absl::OkStatus();
  return Misbehaved(what, absl::StrCat("returned when it had asked for ", done));
}

}  // namespace npubank

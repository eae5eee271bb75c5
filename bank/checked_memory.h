// CheckedMemory: stands between a bank and the DeviceMemory that it was given, and believes neither
// more than it has seen.
//
//   auto checked = std::make_shared<CheckedMemory>(device);   // Bank::Create does
//   NPUBANK_RETURN_IF_ERROR(checked->Write(*memory, produce));
//
// A DeviceMemory may be anybody's, and one that misbehaves would hand submodels weights that are not
// there. What is checked, at the cost of a few comparisons per call:
//   Allocate, Import   OK comes with an allocation, which has an address, aligned as traits() and
//                      hints say, the bytes that were asked for, and costs no less than them
//   Write              OK comes when all bytes were asked of `produce`, in ascending order, each
//                      once, none beyond the end, and `produce` did not fail
// What does not hold is Internal, naming the DeviceMemory, the tensor where it is known, and what
// was seen. An allocation that is refused is freed; bytes that were written in part are the
// caller's to drop, as after any failed Write.
// Ownership, threads, other errors: as device_memory.h says; allocations are the DeviceMemory's own.
#ifndef NPUBANK_BANK_CHECKED_MEMORY_H_
#define NPUBANK_BANK_CHECKED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "npubank/bank/device_memory.h"

namespace npubank {

class CheckedMemory final : public DeviceMemory {
 public:
  explicit CheckedMemory(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}

  // What is checked; for who compares device memories.
  const DeviceMemory& unchecked() const { return *memory_; }

  std::string name() const override { return memory_->name(); }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override;
  absl::Status CheckHints(const MemoryHints& hints) const override {
    return memory_->CheckHints(hints);
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> AllocateAs(uint64_t bytes,
                                                               absl::string_view name,
                                                               const MemoryHints& hints) override;
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Import(std::shared_ptr<Source> source,
                                                           uint64_t offset, uint64_t bytes,
                                                           absl::string_view name) override;
  bool CanImport(const Source& source, uint64_t offset, uint64_t bytes) const override {
    return memory_->CanImport(source, offset, bytes);
  }
  std::unique_ptr<ImportPlan> PlanImports(absl::Span<const ImportRange> ranges) override {
    return memory_->PlanImports(ranges);
  }
  DeviceMemoryTraits traits() const override { return memory_->traits(); }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override;
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    return memory_->Read(memory, offset, out);
  }
  void Trim() override { memory_->Trim(); }
  DeviceUsage Usage() const override { return memory_->Usage(); }
  absl::StatusOr<uint64_t> DriverBytes() const override { return memory_->DriverBytes(); }

 private:
  using Allocated = absl::StatusOr<std::unique_ptr<DeviceAllocation>>;
  Allocated Checked(Allocated allocated, uint64_t bytes, uint64_t least_reserved,
                    absl::string_view name, const MemoryHints& hints = {}) const;
  absl::Status Misbehaved(absl::string_view what, absl::string_view how) const;

  const std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_CHECKED_MEMORY_H_

// HookedMemory: HostMemory that can import files and tells a test when an allocation is to be freed.
//
//   auto memory = std::make_shared<HookedMemory>();
//   memory->imports = true;                      // what is stored and not changed costs nothing
//   memory->before_free = [&] { gate.Pass(); };  // on the thread that frees
//
// Set the hooks before the memory is used from several threads.
#ifndef NPUBANK_TESTS_SUPPORT_HOOKED_MEMORY_H_
#define NPUBANK_TESTS_SUPPORT_HOOKED_MEMORY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

class HookedMemory final : public DeviceMemory {
 public:
  explicit HookedMemory(HostMemory::Options options = {}) : memory_(options) {}

  bool imports = false;
  std::function<void()> before_free;
  // A load each. Read when no load is under way.
  std::vector<std::vector<ImportRange>> planned_imports;

  void InjectFault(HostMemory::Fault fault) { memory_.InjectFault(fault); }

  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override {
    NPUBANK_ASSIGN_OR_RETURN(auto inner, memory_.Allocate(bytes, name));
    return std::make_unique<Allocated>(std::move(inner), before_free);
  }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Import(std::shared_ptr<Source> source, uint64_t,
                                                           uint64_t bytes,
                                                           absl::string_view name) override {
    if (!imports) return memory_.Import(std::move(source), 0, bytes, name);
    return std::make_unique<Imported>(imported_bytes_, bytes);
  }
  DeviceMemoryTraits traits() const override { return {.imports = imports}; }
  bool CanImport(const Source&, uint64_t, uint64_t) const override { return imports; }
  std::unique_ptr<ImportPlan> PlanImports(absl::Span<const ImportRange> ranges) override {
    MutexLock lock(mutex_);
    planned_imports.emplace_back(ranges.begin(), ranges.end());
    return nullptr;
  }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
    return memory_.Write(*static_cast<Allocated&>(memory).inner, produce);
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    if (memory.strategy() == "imported") return absl::UnimplementedError("no bytes behind it");
    return memory_.Read(*static_cast<Allocated&>(memory).inner, offset, out);
  }
  DeviceUsage Usage() const override {
    DeviceUsage usage = memory_.Usage();
    usage.imported_bytes = *imported_bytes_;
    return usage;
  }
  absl::StatusOr<uint64_t> DriverBytes() const override { return memory_.DriverBytes(); }

 private:
  struct Allocated final : DeviceAllocation {
    Allocated(std::unique_ptr<DeviceAllocation> allocation, std::function<void()> hook)
        : inner(std::move(allocation)), before_free(std::move(hook)) {}
    ~Allocated() override {
      if (before_free) before_free();
    }
    void* address() const override { return inner->address(); }
    uint64_t bytes() const override { return inner->bytes(); }
    uint64_t reserved_bytes() const override { return inner->reserved_bytes(); }
    absl::string_view strategy() const override { return inner->strategy(); }
    absl::Span<std::byte> host_bytes() override { return inner->host_bytes(); }

    std::unique_ptr<DeviceAllocation> inner;
    std::function<void()> before_free;
  };

  // Counts, and has no bytes: for tests that ask what an import costs.
  struct Imported final : DeviceAllocation {
    Imported(std::shared_ptr<uint64_t> count, uint64_t size)
        : imported_bytes(std::move(count)), imported(size) {
      *imported_bytes += size;
    }
    ~Imported() override { *imported_bytes -= imported; }
    void* address() const override { return &nothing; }
    uint64_t bytes() const override { return imported; }
    uint64_t reserved_bytes() const override { return 0; }
    absl::string_view strategy() const override { return "imported"; }
    absl::Span<std::byte> host_bytes() override { return {}; }

    alignas(64) static inline std::byte nothing;  // somewhere to point
    std::shared_ptr<uint64_t> imported_bytes;
    uint64_t imported;
  };

  HostMemory memory_;
  Mutex mutex_;  // of planned_imports
  std::shared_ptr<uint64_t> imported_bytes_ = std::make_shared<uint64_t>(0);
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_HOOKED_MEMORY_H_

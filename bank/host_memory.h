// HostMemory: DeviceMemory on plain host memory, for tests and for closures that stay on the CPU.
//
//   auto memory = std::make_shared<HostMemory>(HostMemory::Options{.capacity = 64 << 20});
//
// Page-rounded like an NPU's (4096 bytes); aligned to up to kMostAlignment; no pools. Its switches
// make a test's world fail: a capacity, the n-th allocation or write failing once or forever, memory
// the host cannot write (forces piecewise writes).
#ifndef NPUBANK_BANK_HOST_MEMORY_H_
#define NPUBANK_BANK_HOST_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

class HostMemory : public DeviceMemory {
 public:
  static constexpr uint64_t kMostAlignment = 2 << 20;  // a huge page

  struct Options {
    uint64_t capacity = uint64_t{1} << 40;
    bool host_writable = true;
    uint64_t staging_bytes = 1 << 20;  // the size of a piece when the host cannot write
  };
  struct Fault {
    enum class Call { kAllocate, kWrite, kRead };
    Call call = Call::kAllocate;
    uint64_t nth = 0;  // 1 is the next call; 0 is no fault
    bool forever = false;
  };

  HostMemory();
  explicit HostMemory(Options options);
  ~HostMemory() override;

  std::string name() const override { return "host memory"; }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override;
  absl::Status CheckHints(const MemoryHints& hints) const override;
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> AllocateAs(uint64_t bytes,
                                                               absl::string_view name,
                                                               const MemoryHints& hints) override;
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override;
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override;
  DeviceUsage Usage() const override;
  absl::StatusOr<uint64_t> DriverBytes() const override;

  void InjectFault(Fault fault);

 private:
  struct State;
  class Allocation;
  std::shared_ptr<State> state_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_HOST_MEMORY_H_

// Statistics: how much of the device is in use, counted where it is used.
//
// Charge, the claim of one object on the device's pages:
//
//   std::optional<Charge> charge = Charge::Take(Charge::Kind::kAllocation, bytes, context);
//   if (!charge) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;     // capacity or address range
//
// It lasts as long as its object: a freed allocation that a command list still references stays
// charged. Counted, what the context query is told of: bytes as they were asked for, until they are
// freed, whoever still refers to them; and buffers of the driver's own. Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_STATISTICS_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_STATISTICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "npubank/runtime/level_zero/software_npu_extension.h"
#include "npubank/runtime/software_npu/context.h"

namespace npubank::software_npu {

class Charge {
 public:
  enum class Kind {
    kAllocation,   // takes capacity and addresses
    kImport,       // addresses: the pages are somebody else's
    kPhysical,     // capacity
    kReservation,  // addresses
  };

  // nullopt when the device's capacity or the context's address range does not allow it.
  static std::optional<Charge> Take(Kind kind, uint64_t bytes, std::shared_ptr<Context> context);

  Charge(Charge&& other) noexcept = default;
  Charge& operator=(Charge&&) = delete;
  ~Charge();

  const std::shared_ptr<Context>& context() const { return context_; }

 private:
  Charge(Kind kind, uint64_t bytes, std::shared_ptr<Context> context)
      : kind_(kind), bytes_(bytes), context_(std::move(context)) {}

  Kind kind_;
  uint64_t bytes_;
  std::shared_ptr<Context> context_;  // null: moved from
};

class Counted {
 public:
  enum class Kind {
    kAskedFor,  // allocations, imports, physical memory
    kDriver,    // command buffers and event pools
  };

  Counted(Kind kind, uint64_t bytes, std::shared_ptr<Context> context);
  Counted(Counted&& other) noexcept = default;
  Counted& operator=(Counted&&) = delete;
  ~Counted();

 private:
  Kind kind_;
  uint64_t bytes_;
  std::shared_ptr<Context> context_;  // null: moved from
};

void CountCopiedBytes(uint64_t bytes);
ze_result_t GetStatistics(level_zero::SoftwareNpuStatistics* out);
ze_result_t ResetPeak();

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_CONTROLS_STATISTICS_H_

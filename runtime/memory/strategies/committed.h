// Committed: one allocation of the driver per tensor, rounded up to the driver's pages.
//
// Every allocation begins on a page of the driver's, whatever alignment is asked for up to that.
// The simplest strategy, and exact: what is freed is back at once. Costs a driver call per tensor,
// and on a device with large pages up to a page per tensor.
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_COMMITTED_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_COMMITTED_H_

#include <memory>

#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/strategies/strategy.h"

namespace npubank {

class Committed : public Strategy {
 public:
  Committed(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting)
      : device_(std::move(device)), accounting_(std::move(accounting)) {}

  absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t alignment,
                                                  absl::string_view name) override;
  // What sizes are rounded up to; the driver tells it of an allocation only, so one is made.
  absl::StatusOr<uint64_t> PageBytes();

 private:
  const std::shared_ptr<level_zero::Device> device_;
  const std::shared_ptr<Accounting> accounting_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_COMMITTED_H_

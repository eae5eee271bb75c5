// Strategy: a way to get device memory from a driver; and Block, what it gives.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Block> block, strategy->Allocate(bytes, 4096, "wq"));
//
// Committed, Placed and Tiled are the strategies; one may stand on another (Placed takes its slabs
// from any). Ownership: a block frees itself and keeps what it needs of its strategy alive.
// Threads: any. No strategy holds a lock over a driver call.
// Errors: ResourceExhausted when there is no room; the driver's words otherwise. A failed call
// leaves nothing behind but what Trim gives back.
#ifndef NPUBANK_RUNTIME_MEMORY_STRATEGIES_STRATEGY_H_
#define NPUBANK_RUNTIME_MEMORY_STRATEGIES_STRATEGY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

// What the address of every block, and of every imported tensor, is a multiple of, at the least: the
// widest loads that devices make. A device may want more, up to the pages that drivers give.
inline constexpr uint64_t kDeviceAlignment = 64;
inline constexpr uint64_t kMostDeviceAlignment = 4096;

class Block {
 public:
  virtual ~Block() = default;
  virtual std::byte* address() const = 0;
  virtual uint64_t reserved_bytes() const = 0;  // what it costs
};

class Strategy {
 public:
  // No tensor is larger; sums of sizes and roundings cannot overflow.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 46;

  virtual ~Strategy() = default;
  // 1 <= bytes <= kMostBytes. `alignment` is a power of two up to kMostDeviceAlignment; a strategy may be
  // made for a larger one, which holds then. The name is for errors.
  virtual absl::StatusOr<std::unique_ptr<Block>> Allocate(uint64_t bytes, uint64_t alignment,
                                                          absl::string_view name) = 0;
  // Gives back what is kept for reuse; how many bytes that was.
  virtual uint64_t Trim() { return 0; }
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_STRATEGIES_STRATEGY_H_

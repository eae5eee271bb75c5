// Ancestors: which operations must have ended before which others start, however many run side by
// side. For this room.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_ANCESTORS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_ANCESTORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/graph.h"

namespace npubank {

// One bit for each pair of operations: 32 MiB for the largest graph.
inline constexpr int kMaxParallelOps = 1 << 14;

class Ancestors {
 public:
  // `makers` as CheckGraph returned them. InvalidArgument above kMaxParallelOps operations.
  static absl::StatusOr<Ancestors> Of(const PlanGraph& graph, absl::Span<const int> makers);

  // There is a path from `first` to `second`; no operation comes before itself.
  bool Before(int first, int second) const {
    return (bits_[second * words_ + first / 64] >> (first % 64) & 1) != 0;
  }

 private:
  int64_t words_ = 0;           // per operation
  std::vector<uint64_t> bits_;  // row i: the ancestors of operation i
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_ANCESTORS_H_

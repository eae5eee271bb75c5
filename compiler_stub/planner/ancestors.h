// Ancestors: which operations must have ended before which others start, however many run side by
// side. For this room.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_ANCESTORS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_ANCESTORS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/bit_matrix.h"
#include "npubank/compiler_stub/planner/graph.h"
#include "npubank/compiler_stub/planner/time_limit.h"

namespace npubank {

// A bit for each pair of operations: 32 MiB for the largest graph.
inline constexpr int kMaxParallelOps = 1 << 14;

class Ancestors {
 public:
  // `makers` as CheckGraph returned them. InvalidArgument above kMaxParallelOps operations. Past
  // the limit (null: none) the later operations have none: then more seems to run side by side
  // than does, which costs memory but makes no plan wrong.
  static absl::StatusOr<Ancestors> Of(const PlanGraph& graph, absl::Span<const int> makers,
                                      TimeLimit* limit);

  // There is a path from `first` to `second`; no operation comes before itself.
  bool Before(int first, int second) const { return before_.Get(second, first); }

 private:
  BitMatrix before_;  // row i: the ancestors of operation i
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_ANCESTORS_H_

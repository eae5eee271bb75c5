// Validate: is a plan right?
//
//   NPUBANK_RETURN_IF_ERROR(Validate(problem, plan.offsets));
//
// Written to be read: buffers take their bytes when their life begins, and whoever has some of them
// is in the way. Shares no code with the planner, so that it proves something. O(n log n + parallel
// pairs).
// Errors: InvalidArgument for a problem or a number of offsets that makes no sense;
// FailedPrecondition for a wrong plan, with the reason: the two buffers that collide and where, or
// the buffer that is misaligned or ends beyond the capacity.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_VALIDATOR_H_
#define NPUBANK_COMPILER_STUB_PLANNER_VALIDATOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/problem.h"

namespace npubank {

absl::Status Validate(const Problem& problem, absl::Span<const uint64_t> offsets);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_VALIDATOR_H_

// The lower bound of a problem with parallel pairs. For this room; callers read Plan::lower_bound.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_SEARCH_ANTICHAIN_H_
#define NPUBANK_COMPILER_STUB_PLANNER_SEARCH_ANTICHAIN_H_

#include <cstdint>

#include "npubank/compiler_stub/planner/problem.h"
#include "npubank/compiler_stub/planner/time_limit.h"

namespace npubank {

// Above this many buffers the flow, which looks at every pair many times, gives way to a bound that
// is quick and may be lower.
inline constexpr int kMaxAntichainBuffers = 2048;

// The most bytes that can be alive together when operations run side by side; without parallel
// pairs that is LiveLowerBound. No plan can be smaller. Past the limit: a lower one.
//
// "May lie in the same bytes, a before b" orders the buffers in part. The largest set of which no
// two are so ordered, by size, is what may be alive together; by Dilworth's theorem it weighs as
// much as the lightest set of chains that covers every buffer as often as it has bytes: the sum of
// all sizes less the largest flow from each buffer to later ones that could take over its bytes.
uint64_t LowerBound(const Problem& problem, TimeLimit& limit);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_SEARCH_ANTICHAIN_H_

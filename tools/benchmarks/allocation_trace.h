// AllocationTrace: the allocations and frees that a program made, to replay on another allocator.
//
//   NPUBANK_ASSIGN_OR_RETURN(AllocationTrace trace, AllocationTrace::Load("trace.txt"));
//   for (const AllocationTrace::Step& step : trace.steps) ...
//
// A text file of lines "alloc ID BYTES" and "free ID". Errors: NotFound; InvalidArgument with the
// line's number, for a line of another form, an id that is in use or not in use, and sizes of 0 or
// beyond 2^46 bytes.
#ifndef NPUBANK_TOOLS_BENCHMARKS_ALLOCATION_TRACE_H_
#define NPUBANK_TOOLS_BENCHMARKS_ALLOCATION_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace npubank {

struct AllocationTrace {
  struct Step {
    bool allocate = false;
    uint64_t id = 0;
    uint64_t bytes = 0;  // of a free too
  };

  std::vector<Step> steps;
  uint64_t peak_live_bytes = 0;

  static absl::StatusOr<AllocationTrace> Load(const std::string& path);
  // Three to six models of random, odd sizes, 40 MiB to 5 GiB live at the peak, that take turns on
  // the device: whole models and parts of them leave, in the order they came, backwards or in none;
  // activations come and go between. The same seed gives the same trace.
  static AllocationTrace ModelSwitches(uint32_t seed);
  // Phases of random sizes from 1 KiB to 32 MiB, each phase of other ones, between which a random
  // part of all tensors stays where it is: the worst for memory that cannot be moved.
  static AllocationTrace Adversarial(uint32_t seed);
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_BENCHMARKS_ALLOCATION_TRACE_H_

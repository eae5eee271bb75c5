// AllocationTrace: allocations and frees that a real program made, to replay.
#ifndef NPUBANK_TESTS_UNIT_RUNTIME_MEMORY_ALLOCATION_TRACE_H_
#define NPUBANK_TESTS_UNIT_RUNTIME_MEMORY_ALLOCATION_TRACE_H_

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace npubank {

struct AllocationTrace {
  struct Step {
    bool allocate = false;
    uint64_t id = 0;
    uint64_t bytes = 0;
  };

  std::vector<Step> steps;
  uint64_t peak_live_bytes = 0;

  // Lines "alloc ID BYTES" and "free ID"; nullopt when there is no such file.
  static std::optional<AllocationTrace> Load(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    AllocationTrace trace;
    std::unordered_map<uint64_t, uint64_t> sizes;
    uint64_t live = 0;
    std::string verb;
    Step step;
    while (file >> verb >> step.id) {
      step.allocate = verb == "alloc";
      if (step.allocate) file >> sizes[step.id];
      step.bytes = sizes.at(step.id);
      live = step.allocate ? live + step.bytes : live - step.bytes;
      trace.peak_live_bytes = std::max(trace.peak_live_bytes, live);
      trace.steps.push_back(step);
    }
    return trace;
  }
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_RUNTIME_MEMORY_ALLOCATION_TRACE_H_

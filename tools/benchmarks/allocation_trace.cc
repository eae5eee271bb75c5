#include "npubank/tools/benchmarks/allocation_trace.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 46;

// False for a line of another form.
bool ParseStep(const std::string& line, AllocationTrace::Step* step) {
  std::istringstream words(line);
  std::string verb, rest;
  if (!(words >> verb >> step->id)) return false;
  step->allocate = verb == "alloc";
  if (!step->allocate && verb != "free") return false;
  step->bytes = 0;
  if (step->allocate && !(words >> step->bytes)) return false;
  return !(words >> rest) && step->bytes <= kMostBytes && (step->bytes > 0) == step->allocate;
}

}  // namespace

absl::StatusOr<AllocationTrace> AllocationTrace::Load(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open '", path, "'"));
  AllocationTrace trace;
  std::unordered_map<uint64_t, uint64_t> live;  // id -> bytes
  uint64_t live_bytes = 0;
  Step step;
  for (std::string line; std::getline(file, line);) {
    const bool good = ParseStep(line, &step) && (live.count(step.id) == 0) == step.allocate;
    if (!good || live_bytes > kMostBytes)
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' line ", trace.steps.size() + 1, ": '", line,
                       "' is neither 'alloc ID BYTES' with a new id nor 'free ID' of a live one"));
    if (step.allocate) {
      live[step.id] = step.bytes;
      live_bytes += step.bytes;
    } else {
      step.bytes = live[step.id];
      live_bytes -= step.bytes;
      live.erase(step.id);
    }
    trace.peak_live_bytes = std::max(trace.peak_live_bytes, live_bytes);
    trace.steps.push_back(step);
  }
  return trace;
}

}  // namespace npubank

#include "npubank/compiler_stub/planner/problem.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

absl::Status CheckBuffer(const Buffer& buffer) {
  if (buffer.lower < 0 || buffer.upper <= buffer.lower) {
    return absl::InvalidArgumentError(absl::StrCat("buffer '", buffer.id, "' lives in [",
                                                   buffer.lower, ", ", buffer.upper,
                                                   "): need 0 <= lower < upper"));
  }
  const uint64_t alignment = buffer.alignment;
  if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("buffer '", buffer.id, "' has alignment ",
                                                   alignment, ": need a power of two up to ",
                                                   kMaxAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProblem(const Problem& problem) {
  const int64_t count = static_cast<int64_t>(problem.buffers.size());
  if (count > kMaxBuffers) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " buffers; at most ", kMaxBuffers, " are planned at once"));
  }
  uint64_t room = std::numeric_limits<int64_t>::max();
  for (const Buffer& buffer : problem.buffers) {
    NPUBANK_RETURN_IF_ERROR(CheckBuffer(buffer));
    // A pile of everything, each buffer aligned, must still have an offset.
    if (room < buffer.alignment || buffer.size > room - buffer.alignment) {
      return absl::InvalidArgumentError(absl::StrCat("with buffer '", buffer.id, "' of ",
                                                     buffer.size, " bytes the sizes pass 2^63"));
    }
    room -= buffer.size + buffer.alignment;
  }
  const int64_t parallel = problem.parallel.buffers();
  if (parallel > kMaxParallelBuffers) {
    return absl::InvalidArgumentError(absl::StrCat("parallel pairs of ", parallel,
                                                   " buffers; at most ", kMaxParallelBuffers,
                                                   " are planned in parallel"));
  }
  if (parallel != 0 && parallel != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallel pairs of ", parallel, " buffers, where there are ", count));
  }
  return absl::OkStatus();
}

uint64_t LiveLowerBound(const Problem& problem, int64_t* moment) {
  struct Event {
    int64_t moment;
    bool born;  // else freed
    uint64_t bytes;
  };
  std::vector<Event> events;
  events.reserve(2 * problem.buffers.size());
  for (const Buffer& buffer : problem.buffers) {
    events.push_back({buffer.lower, true, buffer.size});
    events.push_back({buffer.upper, false, buffer.size});
  }
  // At one moment frees come first: half-open lifetimes.
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.moment, a.born) < std::tie(b.moment, b.born);
  });
  uint64_t live = 0;
  uint64_t most = 0;
  for (const Event& event : events) {
    live = event.born ? live + event.bytes : live - event.bytes;
    if (live <= most) continue;
    most = live;
    if (moment != nullptr) *moment = event.moment;
  }
  return most;
}

uint64_t SumOfSizes(const Problem& problem) {
  uint64_t sum = 0;
  for (const Buffer& buffer : problem.buffers) sum += buffer.size;
  return sum;
}

}  // namespace npubank

#include "npubank/compiler_stub/planner/validator.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// "'q' alive [2, 6) at bytes [0, 4096)"
std::string Describe(const Buffer& buffer, uint64_t offset) {
  return absl::StrCat("'", buffer.id, "' alive [", buffer.lower, ", ", buffer.upper, ") at bytes [",
                      offset, ", ", offset + buffer.size, ")");
}

absl::Status CheckPlace(const Buffer& buffer, uint64_t offset, uint64_t capacity) {
  if (offset % buffer.alignment != 0) {
    return absl::FailedPreconditionError(absl::StrCat("buffer '", buffer.id, "' at ", offset,
                                                      " is not aligned to ", buffer.alignment));
  }
  if (buffer.size > capacity || offset > capacity - buffer.size) {
    return absl::FailedPreconditionError(absl::StrCat("buffer '", buffer.id, "' of ", buffer.size,
                                                      " bytes at ", offset,
                                                      " ends beyond the capacity ", capacity));
  }
  return absl::OkStatus();
}

absl::Status Collide(const Problem& problem, absl::Span<const uint64_t> offsets, int a, int b) {
  if (a > b) std::swap(a, b);
  const Buffer& first = problem.buffers[a];
  const Buffer& second = problem.buffers[b];
  const bool alive_together = first.lower < second.upper && second.lower < first.upper;
  return absl::FailedPreconditionError(
      absl::StrCat("buffers ", Describe(first, offsets[a]), " and ", Describe(second, offsets[b]),
                   " collide", alive_together ? "" : ": they may run in parallel"));
}

// Goes through time: what is alive never overlaps.
absl::Status CheckLives(const Problem& problem, absl::Span<const uint64_t> offsets) {
  std::vector<int> births;
  for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i) {
    if (problem.buffers[i].size > 0) births.push_back(i);
  }
  std::vector<int> deaths = births;
  const auto& buffers = problem.buffers;
  std::sort(births.begin(), births.end(),
            [&](int a, int b) { return buffers[a].lower < buffers[b].lower; });
  std::sort(deaths.begin(), deaths.end(),
            [&](int a, int b) { return buffers[a].upper < buffers[b].upper; });
  std::map<uint64_t, int> alive;  // by offset
  size_t dead = 0;
  for (int born : births) {
    for (; buffers[deaths[dead]].upper <= buffers[born].lower; ++dead) {
      alive.erase(offsets[deaths[dead]]);
    }
    const auto above = alive.lower_bound(offsets[born]);
    if (above != alive.end() && above->first < offsets[born] + buffers[born].size) {
      return Collide(problem, offsets, born, above->second);
    }
    if (above != alive.begin()) {
      const int below = std::prev(above)->second;
      if (offsets[below] + buffers[below].size > offsets[born]) {
        return Collide(problem, offsets, born, below);
      }
    }
    alive.emplace(offsets[born], born);
  }
  return absl::OkStatus();
}

absl::Status CheckParallel(const Problem& problem, absl::Span<const uint64_t> offsets) {
  absl::Status status;
  for (int a = 0; a < static_cast<int>(problem.buffers.size()) && status.ok(); ++a) {
    const uint64_t begin = offsets[a];
    const uint64_t end = begin + problem.buffers[a].size;
    problem.parallel.ForEach(a, [&](int b) {
      if (b <= a) return;  // looked at from the other side
      const uint64_t other_end = offsets[b] + problem.buffers[b].size;
      const bool apart = end <= offsets[b] || other_end <= begin;
      const bool empty = begin == end || offsets[b] == other_end;
      if (!apart && !empty && status.ok()) status = Collide(problem, offsets, a, b);
    });
  }
  return status;
}

}  // namespace

absl::Status Validate(const Problem& problem, absl::Span<const uint64_t> offsets) {
  NPUBANK_RETURN_IF_ERROR(CheckProblem(problem));
  const int count = static_cast<int>(problem.buffers.size());
  if (offsets.size() != problem.buffers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(offsets.size(), " offsets for ", count, " buffers"));
  }
  const uint64_t capacity = problem.capacity.value_or(std::numeric_limits<int64_t>::max());
  for (int i = 0; i < count; ++i) {
    NPUBANK_RETURN_IF_ERROR(CheckPlace(problem.buffers[i], offsets[i], capacity));
  }
  NPUBANK_RETURN_IF_ERROR(CheckLives(problem, offsets));
  return CheckParallel(problem, offsets);
}

}  // namespace npubank

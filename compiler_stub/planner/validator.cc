#include "npubank/compiler_stub/planner/validator.h"

#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// "'q' alive [2, 6) at bytes [0, 4096)"
std::string Describe(const Buffer& buffer, int64_t offset) {
  return absl::StrCat("'", buffer.id, "' alive [", buffer.lower, ", ", buffer.upper, ") at bytes [",
                      offset, ", ", offset + buffer.size, ")");
}

absl::Status CheckPlace(const Buffer& buffer, int64_t offset, int64_t capacity) {
  if (offset < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("buffer '", buffer.id, "' has no place: offset ", offset));
  }
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

}  // namespace

absl::Status Validate(const Problem& problem, absl::Span<const int64_t> offsets) {
  NPUBANK_RETURN_IF_ERROR(CheckProblem(problem));
  const int count = static_cast<int>(problem.buffers.size());
  if (offsets.size() != problem.buffers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(offsets.size(), " offsets for ", count, " buffers"));
  }
  const int64_t capacity = problem.capacity.value_or(std::numeric_limits<int64_t>::max());
  for (int i = 0; i < count; ++i) {
    NPUBANK_RETURN_IF_ERROR(CheckPlace(problem.buffers[i], offsets[i], capacity));
  }
  const std::set<std::pair<int, int>> parallel(problem.parallel.begin(), problem.parallel.end());
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      const Buffer& a = problem.buffers[i];
      const Buffer& b = problem.buffers[j];
      const bool alive_together = a.lower < b.upper && b.lower < a.upper;
      const bool may_run_together = parallel.count({i, j}) > 0 || parallel.count({j, i}) > 0;
      if (!alive_together && !may_run_together) continue;
      const bool bytes_shared =
          offsets[i] < offsets[j] + b.size && offsets[j] < offsets[i] + a.size;
      if (!bytes_shared || a.size == 0 || b.size == 0) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("buffers ", Describe(a, offsets[i]), " and ", Describe(b, offsets[j]),
                       " collide", alive_together ? "" : ": they may run in parallel"));
    }
  }
  return absl::OkStatus();
}

}  // namespace npubank

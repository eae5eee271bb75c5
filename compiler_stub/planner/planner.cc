#include "npubank/compiler_stub/planner/planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "npubank/compiler_stub/planner/antichain.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"
#include "npubank/compiler_stub/planner/search/heuristics.h"
#include "npubank/compiler_stub/planner/search/search.h"
#include "npubank/compiler_stub/planner/search/search_space.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr int64_t kFirstTry = 50'000;  // steps: enough to begin with every order of preference

// What is known of one independent part.
struct Part {
  std::vector<int> buffers;
  Problem problem;  // the same, alone
  Conflicts conflicts;
  NamedLayout best;
  int64_t too_small = 0;  // there is proof that this many bytes are not enough
};

Part MakePart(const Problem& problem, std::vector<int> buffers, int64_t enough) {
  Part part;
  for (int buffer : buffers) part.problem.buffers.push_back(problem.buffers[buffer]);
  for (const auto& [a, b] : problem.parallel) {
    const auto first = std::lower_bound(buffers.begin(), buffers.end(), a);
    const auto second = std::lower_bound(buffers.begin(), buffers.end(), b);
    if (first == buffers.end() || *first != a || second == buffers.end() || *second != b) continue;
    part.problem.parallel.emplace_back(first - buffers.begin(), second - buffers.begin());
  }
  part.buffers = std::move(buffers);
  part.conflicts = FindConflicts(part.problem);
  part.too_small = LowerBound(part.problem) - 1;
  part.best = BestHeuristic(part.problem, part.conflicts, std::max(enough, part.too_small + 1));
  return part;
}

// Improves parts by the exact search, within limits that all of them share.
class Improver {
 public:
  Improver(int64_t step_limit, absl::Duration time_limit)
      : steps_left_(step_limit), deadline_(absl::Now() + time_limit) {}

  // Looks for a layout of `part` within `capacity`; true when there is one now.
  bool Fit(int64_t capacity, int64_t steps, Part* part) {
    if (part->best.layout.bytes <= capacity) return true;
    if (part->too_small >= capacity || !CanGoOn()) return false;
    SearchResult result =
        FindLayout(part->problem, part->conflicts, capacity,
                   {.steps = std::min(steps, steps_left_), .deadline = deadline_});
    steps_ += result.steps;
    steps_left_ -= result.steps;
    timed_out_ = result.end == SearchEnd::kDeadline;
    if (result.end == SearchEnd::kNone) part->too_small = capacity;
    if (result.end != SearchEnd::kFound) return false;
    part->best = {"search", {std::move(result.offsets), 0}};
    for (size_t i = 0; i < part->buffers.size(); ++i) {
      part->best.layout.bytes = std::max(
          part->best.layout.bytes, part->best.layout.offsets[i] + part->problem.buffers[i].size);
    }
    return true;
  }

  // Makes `part` as small as the limits allow, but not smaller than `enough`. Round after round,
  // each with twice the steps for a try: first the size that would be best, then halving the
  // distance to what fits.
  void Minimise(int64_t enough, Part* part) {
    const int64_t unit = FindUnit(part->problem);
    for (int64_t steps = kFirstTry; !Fit(enough, steps, part) && CanGoOn(); steps *= 2) {
      int64_t failed = std::max(enough, part->too_small) / unit;
      while (failed + 1 < part->best.layout.bytes / unit && CanGoOn()) {
        const int64_t middle = failed + (part->best.layout.bytes / unit - failed) / 2;
        if (!Fit(middle * unit, steps, part)) failed = middle;
      }
      // Sizes between two units are no sizes: what is proven too small, is so up to the next unit.
      if (part->too_small / unit + 1 < part->best.layout.bytes / unit) continue;
      part->too_small = part->best.layout.bytes - 1;
      return;
    }
  }

  int64_t steps() const { return steps_; }
  bool timed_out() const { return timed_out_; }

 private:
  bool CanGoOn() const { return steps_left_ > 0 && !timed_out_; }

  int64_t steps_left_;
  const absl::Time deadline_;
  int64_t steps_ = 0;
  bool timed_out_ = false;
};

absl::Status DoesNotFit(int64_t capacity, const Plan& plan) {
  return absl::ResourceExhaustedError(absl::StrCat(
      capacity, " bytes are ", plan.lower_bound > capacity ? "not enough" : "too few or too hard",
      ": at least ", plan.lower_bound, " are needed, and a plan of ", plan.bytes,
      " was found; give that many, or a higher step limit"));
}

}  // namespace

absl::StatusOr<Plan> PlanMemory(const Problem& problem, const PlanOptions& options) {
  NPUBANK_RETURN_IF_ERROR(CheckProblem(problem));
  Plan plan;
  plan.offsets.assign(problem.buffers.size(), 0);
  plan.method = "nothing to place";
  std::vector<Part> parts;
  const int64_t floor = std::max(LiveLowerBound(problem), problem.capacity.value_or(0));
  for (std::vector<int>& buffers : IndependentParts(FindConflicts(problem))) {
    parts.push_back(MakePart(problem, std::move(buffers), floor));
    plan.lower_bound = std::max(plan.lower_bound, parts.back().too_small + 1);
  }
  // The part that needs most decides; once it is known, the others need not be smaller.
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.best.layout.bytes > b.best.layout.bytes;
  });
  const int64_t step_limit =
      options.step_limit.value_or(problem.capacity.has_value() ? kStepsToFit : kStepsToMinimise);
  Improver improver(step_limit, options.time_limit);
  int64_t enough = std::max(plan.lower_bound, problem.capacity.value_or(0));
  for (Part& part : parts) {
    const bool searchable = part.buffers.size() <= static_cast<size_t>(kMaxSearchBuffers);
    if (searchable && problem.capacity.has_value()) {
      improver.Fit(enough, step_limit, &part);
    } else if (searchable) {
      improver.Minimise(enough, &part);
      enough = std::max(enough, part.best.layout.bytes);
    }  // else the heuristics' plan is all there is
    for (size_t i = 0; i < part.buffers.size(); ++i) {
      plan.offsets[part.buffers[i]] = part.best.layout.offsets[i];
    }
    plan.lower_bound = std::max(plan.lower_bound, part.too_small + 1);
    if (part.best.layout.bytes <= plan.bytes) continue;
    plan.bytes = part.best.layout.bytes;
    plan.method = part.best.name;
  }
  plan.proven = plan.bytes == plan.lower_bound;
  plan.steps = improver.steps();
  plan.timed_out = improver.timed_out();
  if (problem.capacity.has_value() && plan.bytes > *problem.capacity) {
    return DoesNotFit(*problem.capacity, plan);
  }
  return plan;
}

}  // namespace npubank

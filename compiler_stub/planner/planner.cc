#include "npubank/compiler_stub/planner/planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/search/antichain.h"
#include "npubank/compiler_stub/planner/search/conflicts.h"
#include "npubank/compiler_stub/planner/search/heuristics.h"
#include "npubank/compiler_stub/planner/search/search.h"
#include "npubank/compiler_stub/planner/search/search_space.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr int64_t kFirstTry = 50'000;    // steps: enough to begin with every order of preference
constexpr int64_t kLooks = 500'000'000;  // of the heuristics, at pairs of buffers: some seconds

// What is known of one independent part that has not reached its bound.
struct Part {
  std::vector<int> buffers;
  Problem problem;  // the same, alone
  NamedLayout best;
  uint64_t too_small = 0;  // there is proof that this many bytes are not enough
};

// The buffers of a part without what planning does not look at. `numbers` has room for a number for
// each buffer of the whole.
Problem Alone(const Problem& problem, absl::Span<const int> buffers, std::vector<int>& numbers) {
  Problem part;
  part.buffers.reserve(buffers.size());
  for (int buffer : buffers) {
    const Buffer& from = problem.buffers[buffer];
    numbers[buffer] = static_cast<int>(part.buffers.size());
    part.buffers.push_back({.id = {},
                            .lower = from.lower,
                            .upper = from.upper,
                            .size = from.size,
                            .alignment = from.alignment});
  }
  if (problem.parallel.buffers() == 0) return part;
  if (buffers.size() == problem.buffers.size()) {
    part.parallel = problem.parallel;
    return part;
  }
  part.parallel = ParallelPairs(static_cast<int>(buffers.size()));
  for (int buffer : buffers) {
    problem.parallel.ForEach(buffer, [&](int other) {
      if (problem.buffers[other].size == 0) return;  // in no part
      part.parallel.Add(numbers[buffer], numbers[other]);
    });
  }
  return part;
}

// Improves parts by the exact search, within limits that all of them share.
class Improver {
 public:
  Improver(int64_t step_limit, TimeLimit& limit) : steps_left_(step_limit), limit_(limit) {}

  // Looks for a layout of `part` within `capacity`; true when there is one now.
  bool Fit(uint64_t capacity, int64_t steps, Part* part) {
    if (part->best.layout.bytes <= capacity) return true;
    if (part->too_small >= capacity || !CanGoOn()) return false;
    SearchResult result = FindLayout(part->problem, capacity,
                                     {.steps = std::min(steps, steps_left_), .time = &limit_});
    steps_ += result.steps;
    steps_left_ -= result.steps;
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
  void Minimise(uint64_t enough, Part* part) {
    const uint64_t unit = FindUnit(part->problem);
    for (int64_t steps = kFirstTry; !Fit(enough, steps, part) && CanGoOn(); steps *= 2) {
      uint64_t failed = std::max(enough, part->too_small) / unit;
      while (failed + 1 < part->best.layout.bytes / unit && CanGoOn()) {
        const uint64_t middle = failed + (part->best.layout.bytes / unit - failed) / 2;
        if (!Fit(middle * unit, steps, part)) failed = middle;
      }
      // Sizes between two units are no sizes: what is proven too small, is so up to the next unit.
      if (part->too_small / unit + 1 < part->best.layout.bytes / unit) continue;
      part->too_small = part->best.layout.bytes - 1;
      return;
    }
  }

  int64_t steps() const { return steps_; }

 private:
  bool CanGoOn() const { return steps_left_ > 0 && !limit_.Reached(0); }

  int64_t steps_left_;
  TimeLimit& limit_;
  int64_t steps_ = 0;
};

// Puts the best layouts of parts together to a plan.
class Planner {
 public:
  Planner(const Problem& problem, TimeLimit& limit) : problem_(problem), limit_(limit) {
    plan_.offsets.assign(problem.buffers.size(), 0);
    plan_.method = "nothing to place";
  }

  absl::StatusOr<Plan> Run(std::optional<int64_t> step_limit) {
    PlaceParts();
    // The part that needs most decides; once it is known, the others need not be smaller.
    std::stable_sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      return a.best.layout.bytes > b.best.layout.bytes;
    });
    ImproveParts(
        step_limit.value_or(problem_.capacity.has_value() ? kStepsToFit : kStepsToMinimise));
    if (limit_.cancelled()) return absl::CancelledError("planning memory was cancelled");
    plan_.proven = plan_.bytes == plan_.lower_bound;
    plan_.timed_out = limit_.timed_out();
    if (problem_.capacity.has_value() && plan_.bytes > *problem_.capacity) return DoesNotFit();
    return std::move(plan_);
  }

 private:
  // By the heuristics; keeps the parts that might become smaller.
  void PlaceParts() {
    const uint64_t floor = std::max(LiveLowerBound(problem_), problem_.capacity.value_or(0));
    std::vector<int> numbers(problem_.buffers.size());
    int64_t looks = kLooks;
    for (std::vector<int>& buffers : IndependentParts(problem_)) {
      Part part;
      part.problem = Alone(problem_, buffers, numbers);
      part.buffers = std::move(buffers);
      part.too_small = LowerBound(part.problem, limit_) - 1;
      part.best = BestHeuristic(part.problem, std::max(floor, part.too_small + 1), &looks, limit_);
      plan_.lower_bound = std::max(plan_.lower_bound, part.too_small + 1);
      if (part.best.layout.bytes > floor) {
        parts_.push_back(std::move(part));
      } else {
        Take(part);
      }
    }
  }

  void ImproveParts(int64_t step_limit) {
    Improver improver(step_limit, limit_);
    uint64_t enough = std::max(plan_.lower_bound, problem_.capacity.value_or(0));
    for (Part& part : parts_) {
      const bool searchable = part.buffers.size() <= static_cast<size_t>(kMaxSearchBuffers);
      if (searchable && problem_.capacity.has_value()) {
        improver.Fit(enough, step_limit, &part);
      } else if (searchable) {
        improver.Minimise(enough, &part);
        enough = std::max(enough, part.best.layout.bytes);
      }  // else the heuristics' plan is all there is
      plan_.lower_bound = std::max(plan_.lower_bound, part.too_small + 1);
      Take(part);
    }
    plan_.steps = improver.steps();
  }

  void Take(const Part& part) {
    for (size_t i = 0; i < part.buffers.size(); ++i) {
      plan_.offsets[part.buffers[i]] = part.best.layout.offsets[i];
    }
    if (part.best.layout.bytes <= plan_.bytes) return;
    plan_.bytes = part.best.layout.bytes;
    plan_.method = part.best.name;
  }

  absl::Status DoesNotFit() const {
    return absl::ResourceExhaustedError(
        absl::StrCat(*problem_.capacity, " bytes are ",
                     plan_.lower_bound > *problem_.capacity ? "not enough" : "too few or too hard",
                     ": at least ", plan_.lower_bound, " are needed, and ", plan_.bytes,
                     " can be planned; give that many, or more steps or time to look for fewer"));
  }

  const Problem& problem_;
  TimeLimit& limit_;
  std::vector<Part> parts_;
  Plan plan_;
};

}  // namespace

absl::StatusOr<Plan> PlanMemory(const Problem& problem, std::optional<int64_t> step_limit,
                                TimeLimit& limit) {
  NPUBANK_RETURN_IF_ERROR(CheckProblem(problem));
  return Planner(problem, limit).Run(step_limit);
}

absl::StatusOr<Plan> PlanMemory(const Problem& problem, const PlanOptions& options) {
  TimeLimit limit(options.time_limit, options.cancelled);
  return PlanMemory(problem, options.step_limit, limit);
}

absl::StatusOr<GraphPlan> PlanGraphMemory(const PlanGraph& graph, const LifetimeOptions& options,
                                          const PlanOptions& plan_options) {
  GraphPlan result;
  TimeLimit limit(plan_options.time_limit, plan_options.cancelled);
  NPUBANK_ASSIGN_OR_RETURN(result.lifetimes, FindLifetimes(graph, options, &limit));
  const bool complete = !limit.Reached(0);
  NPUBANK_ASSIGN_OR_RETURN(result.plan,
                           PlanMemory(result.lifetimes.problem, plan_options.step_limit, limit));
  NPUBANK_RETURN_IF_ERROR(Validate(result.lifetimes.problem, result.plan.offsets));
  // With more time more values might have shared a buffer.
  result.plan.proven = result.plan.proven && complete;
  return result;
}

}  // namespace npubank

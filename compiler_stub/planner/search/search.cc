#include "npubank/compiler_stub/planner/search/search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/search/search_space.h"
#include "npubank/lazy_tensor/base/align.h"

namespace npubank {
namespace {

constexpr uint64_t kNoBlocker = std::numeric_limits<uint64_t>::max();
constexpr int64_t kFirstRun = 10'000;  // steps with the first order of preference

// One walk through the tree of decisions, in units.
class Walk {
 public:
  Walk(const SearchSpace& space, uint64_t capacity, const SearchLimits& limits)
      : space_(space),
        capacity_(capacity),
        limits_(limits),
        states_(space.items.size()),
        piles_(space.sections.size()),
        crossing_(space.sections.size(), 0),
        marked_(space.sections.size(), false),
        placed_(static_cast<size_t>(space.neighbours.words()), 0) {
    for (size_t s = 0; s < piles_.size(); ++s) {
      piles_[s] = {space_.sections[s], space_.sections[s].size()};
    }
    for (const SearchSpace::Item& item : space_.items) CountCrossing(item, 1);
  }

  SearchEnd Run() {
    std::vector<int> all(space_.items.size());
    std::iota(all.begin(), all.end(), 0);
    // Nothing has been raised yet, so no section has been looked at.
    for (int s = 0; s < static_cast<int>(piles_.size()); ++s) MarkSection(s);
    if (SectionsFit() && Solve(all)) return SearchEnd::kFound;
    if (!stopped_) return SearchEnd::kNone;
    return timed_out_ ? SearchEnd::kTime : SearchEnd::kSteps;
  }

  int64_t steps() const { return steps_; }
  uint64_t floor(int item) const { return states_[item].floor; }

 private:
  struct State {
    uint64_t floor = 0;  // the lowest possible offset; once placed, the offset
    uint64_t reach = 0;  // while deferred: where a blocker must begin below; else 0
    bool placed = false;
  };
  // A section's members: first those without a place, nearly sorted by floor, then those with one,
  // the last placed first. Undoing in reverse order only has to move the border.
  struct Pile {
    std::vector<int> members;
    size_t waiting = 0;
  };
  struct Change {
    int item;
    State before;
  };

  // Gives every one of `items` that has no place yet one; false when that is impossible or when
  // stopped. Then the caller undoes what was done.
  bool Solve(const std::vector<int>& items);
  // True when `items` fall apart; then *solved says whether all parts could be solved.
  bool SolveApart(const std::vector<int>& items, int first, int end, bool* solved);

  bool Place(int item);
  bool Defer(int item, uint64_t reach);
  // The lowest place for a deferred item on top of a neighbour that begins below `reach`; or
  // kNoBlocker.
  uint64_t LowestOnBlocker(int item, uint64_t reach) const;
  bool RaiseFloor(int item, uint64_t floor);
  // Looks at the marked sections, and unmarks them.
  bool SectionsFit();
  bool PileFits(Pile* pile) const;
  void LeavePiles(int item);
  void ReturnToPiles(int item);

  void MarkSection(int section) {
    if (marked_[section]) return;
    marked_[section] = true;
    to_check_.push_back(section);
  }
  bool CountStep();
  // Ends the walk when the time is up.
  void LookAtTime(size_t work) {
    if (limits_.time->Reached(static_cast<int64_t>(work))) stopped_ = timed_out_ = true;
  }
  // The neighbours without a place.
  template <typename Visit>
  void ForEachWaiting(int item, Visit visit) const {
    const absl::Span<const uint64_t> row = space_.neighbours.Row(item);
    for (size_t w = 0; w < row.size(); ++w) {
      for (uint64_t bits = row[w] & ~placed_[w]; bits != 0; bits &= bits - 1) {
        visit(static_cast<int>(w * 64) + std::countr_zero(bits));
      }
    }
  }
  void SetPlaced(int item, bool placed) {
    states_[item].placed = placed;
    const uint64_t bit = uint64_t{1} << (item % 64);
    uint64_t& word = placed_[static_cast<size_t>(item) / 64];
    word = placed ? word | bit : word & ~bit;
  }
  void Remember(int item) { changes_.push_back({item, states_[item]}); }
  void Undo(size_t mark);
  // Counts an item without a place for the moments between sections that it keeps together.
  void CountCrossing(const SearchSpace::Item& item, int count) {
    for (int s = item.reach_first; s + 1 < item.reach_end; ++s) crossing_[s] += count;
  }

  const SearchSpace& space_;
  const uint64_t capacity_;
  const SearchLimits limits_;
  std::vector<State> states_;
  std::vector<Pile> piles_;    // of each section
  std::vector<int> crossing_;  // items without a place that keep sections s and s + 1 together
  std::vector<bool> marked_;
  std::vector<int> to_check_;
  std::vector<uint64_t> placed_;  // a bit for each item
  std::vector<Change> changes_;
  int64_t steps_ = 0;
  bool stopped_ = false;
  bool timed_out_ = false;
};

bool Walk::CountStep() {
  ++steps_;
  if (steps_ > limits_.steps) stopped_ = true;
  return !stopped_;
}

bool Walk::RaiseFloor(int item, uint64_t floor) {
  const SearchSpace::Item& about = space_.items[item];
  floor = AlignUp(floor, about.alignment);
  if (floor <= states_[item].floor) return true;
  Remember(item);
  states_[item].floor = floor;
  if (about.size > capacity_ || floor > capacity_ - about.size) return false;
  for (int s = about.first_section; s < about.end_section; ++s) MarkSection(s);
  return true;
}

bool Walk::PileFits(Pile* pile) const {
  std::vector<int>& members = pile->members;
  for (size_t i = 1; i < pile->waiting; ++i) {
    // Floors change little from look to look, so insertion is the quickest way to sort.
    const int member = members[i];
    const uint64_t floor = states_[member].floor;
    size_t at = i;
    for (; at > 0 && states_[members[at - 1]].floor > floor; --at) members[at] = members[at - 1];
    members[at] = member;
  }
  uint64_t top = 0;
  for (size_t i = 0; i < pile->waiting; ++i) {
    top = std::max(top, states_[members[i]].floor) + space_.items[members[i]].size;
  }
  return top <= capacity_;
}

void Walk::LeavePiles(int item) {
  for (int s = space_.items[item].first_section; s < space_.items[item].end_section; ++s) {
    Pile& pile = piles_[s];
    const auto end = pile.members.begin() + static_cast<int64_t>(pile.waiting);
    const auto at = std::find(pile.members.begin(), end, item);
    std::rotate(at, at + 1, end);
    --pile.waiting;
  }
}

void Walk::ReturnToPiles(int item) {
  for (int s = space_.items[item].first_section; s < space_.items[item].end_section; ++s) {
    ++piles_[s].waiting;
  }
}

bool Walk::SectionsFit() {
  bool fit = true;
  for (int section : to_check_) {
    marked_[section] = false;
    LookAtTime(piles_[section].waiting);
    fit = fit && PileFits(&piles_[section]);
  }
  to_check_.clear();
  return fit;
}

bool Walk::Place(int item) {
  if (!CountStep()) return false;
  Remember(item);
  SetPlaced(item, true);
  CountCrossing(space_.items[item], -1);
  LeavePiles(item);
  const uint64_t floor = states_[item].floor;
  const uint64_t top = floor + space_.items[item].size;
  bool possible = true;
  ForEachWaiting(item, [&](int other) {
    if (states_[other].reach > floor) {
      Remember(other);
      states_[other].reach = 0;  // this is the blocker it waited for
    }
    possible = possible && RaiseFloor(other, top);
  });
  return SectionsFit() && possible;
}

uint64_t Walk::LowestOnBlocker(int item, uint64_t reach) const {
  uint64_t lowest = kNoBlocker;
  ForEachWaiting(item, [&](int other) {
    const uint64_t floor = states_[other].floor;
    if (floor < reach) lowest = std::min(lowest, floor + space_.items[other].size);
  });
  return lowest;
}

bool Walk::Defer(int item, uint64_t reach) {
  const uint64_t floor = LowestOnBlocker(item, reach);
  if (floor == kNoBlocker) return false;
  Remember(item);
  states_[item].reach = reach;
  const bool possible = RaiseFloor(item, floor);
  return SectionsFit() && possible;
}

void Walk::Undo(size_t mark) {
  while (changes_.size() > mark) {
    const Change& change = changes_.back();
    if (states_[change.item].placed && !change.before.placed) {
      CountCrossing(space_.items[change.item], 1);
      ReturnToPiles(change.item);
      SetPlaced(change.item, false);
    }
    states_[change.item] = change.before;
    changes_.pop_back();
  }
}

bool Walk::SolveApart(const std::vector<int>& items, int first, int end, bool* solved) {
  std::vector<int> part_of(end - first, 0);
  int parts = 1;
  for (int s = first; s + 1 < end; ++s) {
    if (crossing_[s] == 0) ++parts;
    part_of[s + 1 - first] = parts - 1;
  }
  if (parts == 1) return false;
  std::vector<std::vector<int>> lists(parts);
  for (int item : items) {
    if (states_[item].placed) continue;
    lists[part_of[space_.items[item].first_section - first]].push_back(item);
  }
  // A small part that fails, fails quickly.
  std::stable_sort(lists.begin(), lists.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  *solved = std::all_of(lists.begin(), lists.end(),
                        [&](const std::vector<int>& list) { return Solve(list); });
  return true;
}

bool Walk::Solve(const std::vector<int>& items) {
  for (LookAtTime(items.size()); !stopped_; LookAtTime(items.size())) {
    int lowest = -1;
    int first = std::numeric_limits<int>::max();
    int end = 0;
    for (int item : items) {
      if (states_[item].placed) continue;
      if (lowest < 0 || states_[item].floor < states_[lowest].floor) lowest = item;
      first = std::min(first, space_.items[item].first_section);
      end = std::max(end, space_.items[item].end_section);
    }
    if (lowest < 0) return true;
    bool solved = false;
    if (SolveApart(items, first, end, &solved)) return solved;

    const State& state = states_[lowest];
    if (state.reach > 0) {  // still waits for its blocker: the floor it was given is out of date
      if (!Defer(lowest, state.reach)) return false;
      continue;
    }
    const uint64_t reach = state.floor + space_.items[lowest].size;
    if (LowestOnBlocker(lowest, reach) == kNoBlocker) {
      if (!Place(lowest)) return false;
      continue;
    }
    const size_t mark = changes_.size();
    if (Place(lowest) && Solve(items)) return true;
    if (stopped_) return false;
    Undo(mark);
    if (!Defer(lowest, reach)) return false;
  }
  return false;
}

const std::vector<Preference>& Preferences() {
  using enum Measure;
  static const auto* const preferences = new std::vector<Preference>{
      {kPressure, kLife, kArea}, {kPressure, kArea, kLife}, {kLife, kArea, kPressure},
      {kArea, kPressure, kLife}, {kSize, kLife, kPressure},
  };
  return *preferences;
}

}  // namespace

SearchResult FindLayout(const Problem& problem, uint64_t capacity, const SearchLimits& limits) {
  SearchResult result;
  for (int64_t run = kFirstRun;; run *= 2) {
    for (const Preference& preference : Preferences()) {
      SearchLimits run_limits = limits;
      run_limits.steps = std::min(run, limits.steps - result.steps);
      if (run_limits.steps <= 0) return result;
      const SearchSpace space = MakeSearchSpace(problem, preference);
      Walk walk(space, capacity / space.unit, run_limits);
      result.end = walk.Run();
      result.steps += walk.steps();
      if (result.end == SearchEnd::kSteps) continue;
      if (result.end == SearchEnd::kFound) {
        result.offsets.resize(problem.buffers.size());
        for (size_t i = 0; i < space.items.size(); ++i) {
          result.offsets[space.items[i].buffer] = walk.floor(static_cast<int>(i)) * space.unit;
        }
      }
      return result;
    }
  }
}

}  // namespace npubank

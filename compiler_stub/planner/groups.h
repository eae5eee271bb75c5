// Groups: values that share one buffer, grown by merging. For this room; callers use lifetimes.h.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_GROUPS_H_
#define NPUBANK_COMPILER_STUB_PLANNER_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "npubank/compiler_stub/planner/ancestors.h"
#include "npubank/compiler_stub/planner/graph.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/time_limit.h"

namespace npubank {

// What is known of the values of one buffer.
struct Group {
  std::vector<int> values;
  // Operations that run and read or write the buffer, in order, but for those that others of them
  // must follow in any case: where one value was written over another, only uses of the later one.
  std::vector<int> uses;
  int first_use = kNoOp;  // of all
  uint64_t bytes = 0;
  bool external = false;
  bool kept = false;
  bool from_start = false;  // holds an input of the program
};

class Groups {
 public:
  // One group for each value, merged through views. `ancestors` is null for a serial schedule,
  // `limit` where there is none: past it nothing more is merged.
  Groups(const PlanGraph& graph, absl::Span<const int> makers, const Ancestors* ancestors,
         TimeLimit* limit);

  std::vector<FusedAdd> FuseAdds();
  // After FuseAdds: an operation that accumulates does not also write over an input.
  std::vector<InPlace> WriteInPlace();

  // Empty for values that moved into another's group.
  const std::vector<Group>& groups() const { return groups_; }
  int group_of(int value) const { return group_of_[value]; }
  uint64_t offset_of(int value) const { return offset_of_[value]; }
  bool vanished(int op) const { return vanished_[op]; }

 private:
  bool Before(int first, int second) const {
    return ancestors_ == nullptr ? first < second : ancestors_->Before(first, second);
  }
  // Nothing but `except` needs the group's bytes from operation `op` on, and they are there before.
  bool DeadBefore(const Group& group, int op, int except) const;
  // The value that views, each the only reader of the last, made `value` from.
  int BehindViews(int value) const;
  bool ReadOnce(int value) const;
  bool FuseInto(int add, int addend, int summand, std::vector<FusedAdd>* fused);
  bool ReadsAtAnotherPace(int op, int input) const;
  bool WriteOver(int op, int position);
  void AddUse(int value, int op);
  // Moves `from`'s values into group `to`, `shift` bytes behind where they were in their own.
  void Merge(int to, int from, uint64_t shift);

  const PlanGraph& graph_;
  absl::Span<const int> makers_;
  const Ancestors* ancestors_;
  TimeLimit* const limit_;
  std::vector<std::vector<int>> readers_;  // of each value: operations, views among them
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<uint64_t> offset_of_;
  std::vector<bool> vanished_;     // adds that another operation does
  std::vector<bool> accumulates_;  // operations that do them
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_GROUPS_H_

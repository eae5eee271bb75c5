#include "npubank/compiler_stub/planner/groups.h"

#include <algorithm>

namespace npubank {

Groups::Groups(const PlanGraph& graph, absl::Span<const int> makers, const Ancestors* ancestors,
               TimeLimit* limit)
    : graph_(graph),
      makers_(makers),
      ancestors_(ancestors),
      limit_(limit),
      readers_(graph.values.size()),
      groups_(graph.values.size()),
      group_of_(graph.values.size()),
      offset_of_(graph.values.size(), 0),
      vanished_(graph.ops.size(), false),
      accumulates_(graph.ops.size(), false) {
  for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) {
    const PlanValue& value = graph.values[v];
    group_of_[v] = v;
    groups_[v].values = {v};
    groups_[v].bytes = value.bytes;
    groups_[v].external = value.external;
    groups_[v].kept = value.kept;
    groups_[v].from_start = makers[v] == kNoOp;
  }
  for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
    const PlanOp& op = graph.ops[i];
    for (int input : op.inputs) readers_[input].push_back(i);
    if (op.is_view) {
      Merge(group_of_[op.inputs[0]], group_of_[op.outputs[0]],
            offset_of_[op.inputs[0]] + op.view_offset);
      continue;
    }
    for (int input : op.inputs) AddUse(input, i);
    for (int output : op.outputs) AddUse(output, i);
  }
}

void Groups::AddUse(int value, int op) {
  Group& group = groups_[group_of_[value]];
  if (group.uses.empty()) group.first_use = op;
  group.uses.push_back(op);
}

void Groups::Merge(int to, int from, uint64_t shift) {
  Group& kept = groups_[to];
  Group& gone = groups_[from];
  for (int value : gone.values) {
    group_of_[value] = to;
    offset_of_[value] += shift;
  }
  kept.values.insert(kept.values.end(), gone.values.begin(), gone.values.end());
  kept.uses.insert(kept.uses.end(), gone.uses.begin(), gone.uses.end());
  if (kept.first_use == kNoOp || (gone.first_use != kNoOp && gone.first_use < kept.first_use)) {
    kept.first_use = gone.first_use;
  }
  kept.kept |= gone.kept;
  gone = Group();
}

bool Groups::DeadBefore(const Group& group, int op, int except) const {
  if (group.external || group.kept) return false;
  if (limit_ != nullptr && limit_->Reached(static_cast<int64_t>(group.uses.size()))) return false;
  for (size_t i = group.uses.size(); i-- > 0;) {  // the last is the likeliest to be in the way
    if (group.uses[i] == except) continue;
    if (!Before(group.uses[i], op)) return false;
    if (ancestors_ == nullptr) break;  // all others are earlier
  }
  return true;
}

bool Groups::ReadOnce(int value) const {
  return readers_[value].size() == 1 && !graph_.values[value].kept;
}

int Groups::BehindViews(int value) const {
  while (ReadOnce(value)) {
    const int maker = makers_[value];
    if (maker == kNoOp || !graph_.ops[maker].is_view) break;
    value = graph_.ops[maker].inputs[0];
  }
  return value;
}

bool Groups::FuseInto(int add, int addend, int summand, std::vector<FusedAdd>* fused) {
  const int sum = graph_.ops[add].outputs[0];
  if (addend == summand || graph_.values[sum].external || !ReadOnce(summand)) return false;
  const int made = BehindViews(summand);
  const int producer = makers_[made];
  if (producer == kNoOp || !graph_.ops[producer].can_accumulate || !ReadOnce(made)) return false;
  const int to = group_of_[addend];
  const Group& own = groups_[group_of_[made]];
  if (own.external || own.bytes != graph_.values[sum].bytes) return false;
  if (group_of_[made] == to || accumulates_[producer]) return false;
  // A view may begin anywhere; what an operation writes begins where every place does.
  if (offset_of_[addend] % graph_.alignment != 0) return false;
  if (!DeadBefore(groups_[to], producer, add)) return false;
  vanished_[add] = true;
  accumulates_[producer] = true;
  std::vector<int>& uses = groups_[to].uses;
  uses.clear();  // the producer follows them
  Merge(to, group_of_[made], offset_of_[addend]);
  Merge(to, group_of_[sum], offset_of_[addend]);
  uses.erase(std::remove(uses.begin(), uses.end(), add), uses.end());
  fused->push_back({add, producer, addend});
  return true;
}

std::vector<FusedAdd> Groups::FuseAdds() {
  std::vector<FusedAdd> fused;
  for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
    const PlanOp& op = graph_.ops[i];
    if (!op.is_add) continue;
    // The summand made last is the likelier one: what it is added to has to be there before.
    const bool second_is_later = makers_[op.inputs[1]] >= makers_[op.inputs[0]];
    const int later = op.inputs[second_is_later ? 1 : 0];
    const int earlier = op.inputs[second_is_later ? 0 : 1];
    if (!FuseInto(i, earlier, later, &fused)) FuseInto(i, later, earlier, &fused);
  }
  return fused;
}

// Whether the operation, while it writes over `input`, would read bytes of it half overwritten:
// through another part or shape of them, or as an input that it may not write over.
bool Groups::ReadsAtAnotherPace(int op, int input) const {
  const PlanOp& about = graph_.ops[op];
  for (int position = 0; position < static_cast<int>(about.inputs.size()); ++position) {
    const int other = about.inputs[position];
    if (group_of_[other] != group_of_[input]) continue;
    const auto may = std::find(about.in_place.begin(), about.in_place.end(), position);
    if (other != input || may == about.in_place.end()) return true;
  }
  return false;
}

bool Groups::WriteOver(int op, int position) {
  const int input = graph_.ops[op].inputs[position];
  const int output = graph_.ops[op].outputs[0];
  const int to = group_of_[input];
  const int from = group_of_[output];
  if (to == from || groups_[from].external || offset_of_[input] != 0 || offset_of_[output] != 0) {
    return false;
  }
  if (groups_[to].bytes != groups_[from].bytes ||
      graph_.values[input].bytes != graph_.values[output].bytes) {
    return false;
  }
  if (ReadsAtAnotherPace(op, input)) return false;
  if (!DeadBefore(groups_[to], op, op)) return false;
  groups_[to].uses.clear();  // `op` follows them
  Merge(to, from, 0);
  return true;
}

std::vector<InPlace> Groups::WriteInPlace() {
  std::vector<InPlace> done;
  for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
    const PlanOp& op = graph_.ops[i];
    if (op.is_view || vanished_[i] || accumulates_[i]) continue;
    for (int position : op.in_place) {
      if (!WriteOver(i, position)) continue;
      done.push_back({i, position});
      break;
    }
  }
  return done;
}

}  // namespace npubank

#include "npubank/compiler_stub/partition/body.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

class BodyBuilder {
 public:
  BodyBuilder(const Graph& graph, const Partition& partition, size_t function,
              const CompileOptions& options)
      : graph_(graph), partition_(partition), options_(options) {
    const std::vector<size_t>& calls = partition.functions[function].calls;
    for (size_t call : calls) calls_.push_back(&partition.calls[call]);
    outputs_.insert(first().outputs.begin(), first().outputs.end());
  }

  absl::StatusOr<Function> Build(std::string name) {
    function_.name = std::move(name);
    NPUBANK_RETURN_IF_ERROR(Plan());
    AddArguments();
    AddValues();
    AddOps();
    const absl::Status checked = CheckFunction(function_);
    if (!checked.ok()) return absl::InternalError(checked.message());
    return std::move(function_);
  }

 private:
  const PartitionCall& first() const { return *calls_.front(); }

  // Finds out which values share memory, then gives scratch to those that no argument holds.
  absl::Status Plan() {
    // Inputs that an output may turn out to lie on. Those it does not are only to be read, which
    // may part what they held together: again, until nothing changes.
    std::vector<uint32_t> writable = DyingInputs();
    while (true) {
      NPUBANK_RETURN_IF_ERROR(FindSharing(writable));
      std::vector<uint32_t> over;
      for (uint32_t input : writable) {
        const std::optional<size_t> output = OutputInBufferOf(input);
        if (over.empty() && output.has_value() && !LeavesSubmodel(*output)) over.push_back(input);
      }
      if (over.size() == writable.size()) break;
      writable = std::move(over);
    }
    if (!writable.empty()) over_ = writable.front();
    Problem problem = lifetimes_.problem;
    for (const auto& [value, local] : locals_) {
      if (ArgumentOf(value).has_value() && lifetimes_.buffer_of[local] != kNoBuffer) {
        problem.buffers[lifetimes_.buffer_of[local]].size = 0;
      }
    }
    NPUBANK_ASSIGN_OR_RETURN(const npubank::Plan plan, PlanMemory(problem, PlanOptions()));
    NPUBANK_RETURN_IF_ERROR(Validate(problem, plan.offsets));
    offsets_ = plan.offsets;
    function_.scratch_bytes = plan.bytes;
    return absl::OkStatus();
  }

  // The activations that no call of this function leaves for anybody later.
  std::vector<uint32_t> DyingInputs() const {
    std::vector<uint32_t> dying;
    for (size_t i = 0; options_.reuse && i < first().inputs.size(); ++i) {
      const bool dies = std::all_of(calls_.begin(), calls_.end(), [&](const PartitionCall* call) {
        const uint32_t value = call->inputs[i];
        if (graph_.value(value).kind != ValueKind::kComputed) return false;
        return !IsSubmodelOutput(value) && IsLastReader(*call, value);
      });
      if (dies) dying.push_back(first().inputs[i]);
    }
    return dying;
  }

  bool IsSubmodelOutput(uint32_t value) const {
    const std::vector<uint32_t>& outputs = graph_.outputs();
    return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
  }

  // An output that any call hands to the caller of the submodel lies in memory that the caller
  // gives: never on an input.
  bool LeavesSubmodel(size_t output) const {
    return std::any_of(calls_.begin(), calls_.end(), [&](const PartitionCall* call) {
      return IsSubmodelOutput(call->outputs[output]);
    });
  }

  // Every other call that reads `value` has run when `call` does.
  bool IsLastReader(const PartitionCall& call, uint32_t value) const {
    const std::vector<bool> before = CallsBefore(call);
    for (size_t c = 0; c < before.size(); ++c) {
      const PartitionCall& other = partition_.calls[c];
      const bool reads =
          std::find(other.inputs.begin(), other.inputs.end(), value) != other.inputs.end();
      if (reads && &other != &call && !before[c]) return false;
    }
    return true;
  }

  // By number: in order, all before it; else those whose results it needs, and theirs.
  std::vector<bool> CallsBefore(const PartitionCall& call) const {
    const auto number = static_cast<size_t>(&call - partition_.calls.data());
    std::vector<bool> before(partition_.calls.size(), false);
    if (options_.schedule == Schedule::kSerial) {
      std::fill_n(before.begin(), number, true);
      return before;
    }
    std::set<uint32_t> needed(call.inputs.begin(), call.inputs.end());
    for (size_t c = number; c-- > 0;) {
      const PartitionCall& earlier = partition_.calls[c];
      before[c] = std::any_of(earlier.outputs.begin(), earlier.outputs.end(),
                              [&](uint32_t output) { return needed.count(output) > 0; });
      if (before[c]) needed.insert(earlier.inputs.begin(), earlier.inputs.end());
    }
    return before;
  }

  absl::Status FindSharing(const std::vector<uint32_t>& writable) {
    PlanGraph plan;
    locals_.clear();
    for (uint32_t input : first().inputs) {
      const bool external = std::find(writable.begin(), writable.end(), input) == writable.end();
      AddLocal(plan, input, external);
    }
    for (size_t i = first().begin; i < first().end; ++i) {
      const GraphOp& op = graph_.ops()[i];
      AddLocal(plan, op.output, graph_.Root(op.output) != op.output);
      plan.ops.push_back(ToPlanOp(op));
    }
    LifetimeOptions options;
    options.fused_add = options_.reuse;
    options.schedule = options_.schedule;
    NPUBANK_ASSIGN_OR_RETURN(lifetimes_, FindLifetimes(plan, options));
    if (options_.reuse) return absl::OkStatus();
    for (Buffer& buffer : lifetimes_.problem.buffers) {
      buffer.lower = 0;
      buffer.upper = static_cast<int64_t>(plan.ops.size()) + 1;
    }
    return absl::OkStatus();
  }

  void AddLocal(PlanGraph& plan, uint32_t value, bool external) {
    const GraphValue& v = graph_.value(value);
    locals_[value] = plan.AddValue(v.name, v.type.bytes(), external, outputs_.count(value) > 0);
  }

  PlanOp ToPlanOp(const GraphOp& op) const {
    PlanOp plan;
    plan.name = op.name;
    plan.kind = std::string(OpKindName(op.kind));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      plan.inputs.push_back(Local(op.inputs[i]));
      // A mix adds its heads to the others' result, shared or not shared memory otherwise.
      const bool may = options_.reuse || op.kind == OpKind::kAttentionMix;
      if (may && OutputMayOverwrite(op, i)) plan.in_place.push_back(static_cast<int>(i));
    }
    plan.outputs = {Local(op.output)};
    plan.is_add = op.kind == OpKind::kAdd;
    plan.can_accumulate = op.kind == OpKind::kMatMul && op.inputs.size() == 1 + WeightInputs(op);
    return plan;
  }

  // A value in the memory of a state is the state's.
  int Local(uint32_t value) const {
    const auto local = locals_.find(value);
    return local != locals_.end() ? local->second : locals_.at(graph_.Root(value));
  }

  int BufferOf(uint32_t value) const { return lifetimes_.buffer_of[Local(value)]; }

  std::optional<size_t> OutputInBufferOf(uint32_t value) const {
    const int buffer = BufferOf(value);
    if (buffer == kNoBuffer) return std::nullopt;
    for (size_t i = 0; i < first().outputs.size(); ++i) {
      if (BufferOf(first().outputs[i]) == buffer) return i;
    }
    return std::nullopt;
  }

  size_t FirstOutputArgument() const {
    return first().inputs.size() + (function_.scratch_bytes > 0 ? 1 : 0);
  }

  // The argument whose memory `value` is: an input, or the output that its buffer becomes.
  std::optional<size_t> ArgumentOf(uint32_t value) const {
    const uint32_t root = graph_.Root(value);
    const auto input = std::find(first().inputs.begin(), first().inputs.end(), root);
    if (input != first().inputs.end()) {
      return static_cast<size_t>(input - first().inputs.begin());
    }
    const std::optional<size_t> output = OutputInBufferOf(value);
    if (!output.has_value()) return std::nullopt;
    return FirstOutputArgument() + *output;
  }

  void AddArguments() {
    for (size_t i = 0; i < first().inputs.size(); ++i) {
      AddArgument(ArgumentKind::kInput, &PartitionCall::inputs, i);
    }
    if (function_.scratch_bytes > 0) {
      FunctionArgument scratch;
      scratch.name = kScratchArgument;
      const auto elements = static_cast<int64_t>(function_.scratch_bytes);
      scratch.type = *TensorType::Create(ElementType::kU8, *Shape::Create({elements}));
      function_.arguments.push_back(std::move(scratch));
    }
    for (size_t i = 0; i < first().outputs.size(); ++i) {
      AddArgument(ArgumentKind::kOutput, &PartitionCall::outputs, i);
    }
    if (!over_.has_value()) return;
    const size_t output = FirstOutputArgument() + *OutputInBufferOf(*over_);
    const size_t input = *ArgumentOf(*over_);
    function_.arguments[output].over = static_cast<int32_t>(input);
  }

  void AddArgument(ArgumentKind kind, std::vector<uint32_t> PartitionCall::*values, size_t i) {
    FunctionArgument argument;
    argument.kind = kind;
    argument.type = graph_.value((first().*values)[i]).type;
    const GraphValue& value = graph_.value((first().*values)[i]);
    argument.name = value.name;
    for (const PartitionCall* call : calls_) {
      argument.name = CommonName(argument.name, graph_.value((call->*values)[i]).name);
    }
    if (value.part != WeightPart::kWeight) {
      absl::StrAppend(&argument.name, " (", WeightPartName(value.part), ")");
    }
    if (argument.name.empty()) argument.name = kind == ArgumentKind::kInput ? "input" : "output";
    // Two parameters can have the same in common.
    if (argument.name == kScratchArgument || !argument_names_.insert(argument.name).second) {
      absl::StrAppend(&argument.name, "#", function_.arguments.size());
      argument_names_.insert(argument.name);
    }
    function_.arguments.push_back(std::move(argument));
  }

  void AddValues() {
    std::set<uint32_t> vanished;  // what fused MatMuls no longer make
    for (const FusedAdd& fused : lifetimes_.fused_adds) {
      vanished.insert(graph_.ops()[first().begin + static_cast<size_t>(fused.producer)].output);
    }
    for (size_t i = 0; i < first().inputs.size(); ++i) {
      AddValue(first().inputs[i], function_.arguments[i].name);
    }
    for (size_t i = first().begin; i < first().end; ++i) {
      const uint32_t value = graph_.ops()[i].output;
      if (vanished.count(value) == 0) {
        AddValue(value, CommonOpName(i, [this](size_t op) -> const std::string& {
                   return graph_.value(graph_.ops()[op].output).name;
                 }));
      }
    }
  }

  void AddValue(uint32_t value, std::string name) {
    FunctionValue to;
    to.name = std::move(name);
    to.type = graph_.value(value).type;
    const std::optional<size_t> argument = ArgumentOf(value);
    to.storage = argument.has_value() ? Storage::kArgument : Storage::kScratch;
    to.place = argument.has_value() ? *argument : offsets_[BufferOf(value)];
    numbers_[value] = static_cast<uint32_t>(function_.values.size());
    function_.values.push_back(std::move(to));
  }

  void AddOps() {
    std::map<size_t, FusedAdd> by_producer;
    std::set<size_t> vanished;
    for (const FusedAdd& fused : lifetimes_.fused_adds) {
      by_producer.emplace(first().begin + static_cast<size_t>(fused.producer), fused);
      vanished.insert(first().begin + static_cast<size_t>(fused.add));
    }
    std::map<int, uint32_t> by_local;
    for (const auto& [value, local] : locals_) by_local[local] = value;
    for (size_t i = first().begin; i < first().end; ++i) {
      if (vanished.count(i) > 0) continue;
      GraphOp op = graph_.ops()[i];
      const auto fused = by_producer.find(i);
      if (fused != by_producer.end()) {
        const size_t add = first().begin + static_cast<size_t>(fused->second.add);
        op.inputs.push_back(by_local.at(fused->second.addend));
        op.output = graph_.ops()[add].output;
      }
      op.name =
          CommonOpName(i, [this](size_t j) -> const std::string& { return graph_.ops()[j].name; });
      for (uint32_t& input : op.inputs) input = Number(input);
      op.output = Number(op.output);
      function_.ops.push_back(std::move(op));
    }
  }

  // What the calls' operations in the place of operation `i` have in common in their names.
  template <typename NameOf>
  std::string CommonOpName(size_t i, NameOf name_of) const {
    std::string name = name_of(i);
    for (const PartitionCall* call : calls_) {
      name = CommonName(name, name_of(call->begin + (i - first().begin)));
    }
    return name.empty() ? absl::StrCat("#", i - first().begin) : name;
  }

  uint32_t Number(uint32_t value) const {
    const auto number = numbers_.find(value);
    return number != numbers_.end() ? number->second : numbers_.at(graph_.Root(value));
  }

  const Graph& graph_;
  const Partition& partition_;
  const CompileOptions& options_;
  std::vector<const PartitionCall*> calls_;
  std::set<uint32_t> outputs_;
  std::map<uint32_t, int> locals_;  // graph value -> the planner's
  Lifetimes lifetimes_;
  std::vector<uint64_t> offsets_;  // by buffer
  std::optional<uint32_t> over_;  // the input that an output lies on
  std::set<std::string> argument_names_;
  std::map<uint32_t, uint32_t> numbers_;  // graph value -> the function's
  Function function_;
};

}  // namespace

std::string CommonName(absl::string_view a, absl::string_view b) {
  const std::vector<absl::string_view> left = absl::StrSplit(a, '.');
  const std::vector<absl::string_view> right = absl::StrSplit(b, '.');
  std::vector<absl::string_view> common;
  // Aligned from the end, so that a name already shortened still meets the same parts.
  size_t i = left.size();
  size_t j = right.size();
  while (i > 0 && j > 0) {
    if (left[i - 1] == right[j - 1]) {
      common.push_back(left[--i]);
      --j;
    } else if (i < j) {
      --j;
    } else if (j < i) {
      --i;
    } else {
      --i;
      --j;
    }
  }
  std::reverse(common.begin(), common.end());
  return absl::StrJoin(common, ".");
}

absl::StatusOr<Function> BuildBody(const Graph& graph, const Partition& partition, size_t function,
                                   std::string name, const CompileOptions& options) {
  return BodyBuilder(graph, partition, function, options).Build(std::move(name));
}

}  // namespace npubank

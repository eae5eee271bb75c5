#include "npubank/compiler_stub/compile_graph.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/compiler_stub/partition/body.h"
#include "npubank/compiler_stub/partition/closure.h"
#include "npubank/compiler_stub/partition/partition.h"
#include "npubank/compiler_stub/planner/lifetimes.h"
#include "npubank/compiler_stub/planner/planner.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/compiler_stub/views/schedule_view.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// The device has a function for every operation over the weights that it takes.
absl::Status CheckWeightFunctions(const Graph& graph, const DeviceTraits& device) {
  for (const GraphOp& op : graph.ops()) {
    for (uint32_t input : op.inputs) {
      const GraphValue& value = graph.value(input);
      if (value.kind != ValueKind::kWeight || value.part != WeightPart::kWeight) continue;
      const WeightForm& form = op.attributes.form;
      const ElementType element = value.type.element();
      if (device.Has(op.kind, form, element)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("weight '", value.name, "' is ", value.type.ToString(),
                       form.plain() ? "" : absl::StrCat(" (", form.ToString(), ")"),
                       " on the device, which has no ", OpKindName(op.kind), " over ",
                       form.kind() == WeightForm::Kind::kBlocks ? form.ToString()
                                                                : ElementTypeName(element),
                       "; choose another weight format"));
    }
  }
  return absl::OkStatus();
}

class GraphCompiler {
 public:
  GraphCompiler(const Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), partition_(FindPartition(graph)), closures_(graph) {}

  absl::StatusOr<SubmodelBlob> Run() {
    blob_.name = options_.name;
    blob_.chunk = static_cast<uint64_t>(options_.chunk);
    blob_.context = static_cast<uint64_t>(options_.context);
    NPUBANK_RETURN_IF_ERROR(AddFunctions());
    AddInterface();
    AddCalls();
    blob_.weights = closures_.weights();
    NPUBANK_ASSIGN_OR_RETURN(blob_.recipes, closures_.Encode());
    NPUBANK_RETURN_IF_ERROR(PlanArena());
    return std::move(blob_);
  }

 private:
  const PartitionCall& FirstCall(size_t function) const {
    return partition_.calls[partition_.functions[function].calls.front()];
  }

  // A block that repeats is "block"; a function called once has the name of what it makes last.
  std::string FunctionName(size_t function) const {
    if (partition_.functions[function].calls.size() > 1) return "block";
    return graph_.ops()[FirstCall(function).end - 1].name;
  }

  absl::Status AddFunctions() {
    std::set<std::string> names;
    for (size_t f = 0; f < partition_.functions.size(); ++f) {
      std::string name = FunctionName(f);
      if (!names.insert(name).second) {
        absl::StrAppend(&name, "#", f);
        names.insert(name);
      }
      SubmodelFunction function;
      NPUBANK_ASSIGN_OR_RETURN(function.function, BuildBody(graph_, partition_, f, name, options_));
      function.name = std::move(name);
      function.blob = WriteFunctionBlob(function.function);
      blob_.scratch_bytes = std::max(blob_.scratch_bytes, function.function.scratch_bytes);
      blob_.functions.push_back(std::move(function));
    }
    return absl::OkStatus();
  }

  // The values that the session gives, reads and keeps, in the graph's order.
  void AddInterface() {
    for (uint32_t v = 0; v < graph_.values().size(); ++v) {
      if (graph_.value(v).kind == ValueKind::kInput) AddValue(v, Placement::kInput);
    }
    for (uint32_t output : graph_.outputs()) AddValue(output, Placement::kOutput);
    for (uint32_t v = 0; v < graph_.values().size(); ++v) {
      if (graph_.value(v).kind == ValueKind::kState) AddValue(v, Placement::kState);
    }
  }

  uint32_t AddValue(uint32_t value, Placement placement) {
    const auto next = static_cast<uint32_t>(blob_.values.size());
    const auto [known, added] = numbers_.emplace(value, next);
    if (added) {
      blob_.values.push_back({graph_.value(value).name, graph_.value(value).type, placement, 0});
    }
    return known->second;
  }

  Binding Bind(uint32_t value) {
    if (graph_.value(value).kind == ValueKind::kWeight) return closures_.Bind(value);
    return {BindingKind::kValue, AddValue(value, Placement::kArena)};
  }

  void AddCalls() {
    for (const PartitionCall& from : partition_.calls) {
      const SubmodelFunction& function = blob_.functions[from.function];
      Call call;
      call.function = static_cast<uint32_t>(from.function);
      call.name = function.name;
      const std::vector<size_t>& siblings = partition_.functions[from.function].calls;
      if (siblings.size() > 1) absl::StrAppend(&call.name, ".", calls_of_[from.function]++);
      for (uint32_t input : from.inputs) call.arguments.push_back(Bind(input));
      if (function.function.scratch_bytes > 0) {
        call.arguments.push_back({BindingKind::kScratch, 0});
      }
      for (uint32_t output : from.outputs) call.arguments.push_back(Bind(output));
      blob_.calls.push_back(std::move(call));
    }
  }

  absl::Status PlanArena() {
    PlanGraph graph = CallGraph(blob_);
    graph.alignment = std::max(graph.alignment, options_.device.argument_alignment);
    const int scratch = graph.AddValue(kScratchArgument, blob_.scratch_bytes, false, true);
    LifetimeOptions lifetime_options;
    lifetime_options.schedule = options_.schedule;
    NPUBANK_ASSIGN_OR_RETURN(Lifetimes lifetimes, FindLifetimes(graph, lifetime_options));
    if (!options_.reuse) {
      for (Buffer& buffer : lifetimes.problem.buffers) {
        buffer.lower = 0;
        buffer.upper = static_cast<int64_t>(graph.ops.size()) + 1;
      }
    }
    NPUBANK_ASSIGN_OR_RETURN(const Plan plan, PlanMemory(lifetimes.problem, PlanOptions()));
    NPUBANK_RETURN_IF_ERROR(Validate(lifetimes.problem, plan.offsets));
    blob_.arena_bytes = plan.bytes;
    for (size_t v = 0; v < blob_.values.size(); ++v) {
      if (blob_.values[v].placement != Placement::kArena) continue;
      blob_.values[v].offset = plan.offsets[lifetimes.buffer_of[v]];
    }
    if (blob_.scratch_bytes > 0) {
      blob_.scratch_offset = plan.offsets[lifetimes.buffer_of[scratch]];
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const Partition partition_;
  Closures closures_;
  std::map<size_t, size_t> calls_of_;     // by function: how many calls are named already
  std::map<uint32_t, uint32_t> numbers_;  // graph value -> the blob's
  SubmodelBlob blob_;
};

}  // namespace

absl::StatusOr<SubmodelBlob> CompileGraph(const Graph& graph, const CompileOptions& options) {
  NPUBANK_RETURN_IF_ERROR(CheckWeightFunctions(graph, options.device));
  return GraphCompiler(graph, options).Run();
}

}  // namespace npubank

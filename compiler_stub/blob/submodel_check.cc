#include "npubank/compiler_stub/blob/submodel_check.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/live_ranges.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr size_t kMaxOperations = 1 << 20;

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

class SubmodelChecker {
 public:
  explicit SubmodelChecker(const SubmodelBlob& blob)
      : blob_(blob),
        made_(blob.values.size(), false),
        last_call_(blob.values.size(), -1),
        weight_types_(blob.weights.size()) {}

  absl::Status Check() {
    NPUBANK_RETURN_IF_ERROR(CheckSizes());
    NPUBANK_RETURN_IF_ERROR(CheckNames("function", blob_.functions, NameOf<SubmodelFunction>));
    NPUBANK_RETURN_IF_ERROR(CheckNames("value", blob_.values, NameOf<SubmodelValue>));
    NPUBANK_RETURN_IF_ERROR(CheckWeights());
    NPUBANK_RETURN_IF_ERROR(CheckNames("call", blob_.calls, NameOf<Call>));
    NPUBANK_RETURN_IF_ERROR(CheckPlaces());
    NPUBANK_RETURN_IF_ERROR(CheckLength());
    for (const SubmodelFunction& function : blob_.functions) {
      changed_.push_back(ChangedInputs(function.function));
    }
    for (int64_t c = 0; c < static_cast<int64_t>(blob_.calls.size()); ++c) {
      const Call& call = blob_.calls[static_cast<size_t>(c)];
      NPUBANK_RETURN_IF_ERROR(
          Annotate(CheckBindings(call), absl::StrCat("call '", call.name, "'")));
      NoteReads(c, call);
    }
    for (int64_t c = 0; c < static_cast<int64_t>(blob_.calls.size()); ++c) {
      const Call& call = blob_.calls[static_cast<size_t>(c)];
      NPUBANK_RETURN_IF_ERROR(Annotate(Step(c, call), absl::StrCat("call '", call.name, "'")));
    }
    return CheckComplete();
  }

 private:
  template <typename Part>
  static std::string NameOf(const Part& part) {
    return part.name;
  }

  template <typename Part, typename NameFunction>
  static absl::Status CheckNames(absl::string_view what, const std::vector<Part>& parts,
                                 NameFunction name_of) {
    std::set<std::string> names;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string name = name_of(parts[i]);
      NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(name), absl::StrCat(what, " ", i)));
      if (!names.insert(name).second) {
        return Invalid(absl::StrCat(what, " '", name, "' is there twice"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckWeights() const {
    std::set<std::pair<std::string, WeightPart>> parts;
    for (size_t i = 0; i < blob_.weights.size(); ++i) {
      const SubmodelWeight& weight = blob_.weights[i];
      NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(weight.name), absl::StrCat("weight ", i)));
      if (weight.part > WeightPart::kGroup) {
        return Invalid(absl::StrCat("weight '", weight.name, "' has a part ",
                                    static_cast<int>(weight.part), ", which is not known"));
      }
      if (!parts.emplace(weight.name, weight.part).second) {
        return Invalid(absl::StrCat("weight '", weight.ToString(), "' is there twice"));
      }
    }
    return absl::OkStatus();
  }

  // Scales, zero points, minima and groups come with the weight that they belong to.
  absl::Status CheckClosure(const Call& call) const {
    std::set<std::string> whole;
    const std::vector<uint32_t> closure = call.Closure();
    for (uint32_t w : closure) {
      if (blob_.weights[w].part == WeightPart::kWeight) whole.insert(blob_.weights[w].name);
    }
    for (uint32_t w : closure) {
      if (whole.count(blob_.weights[w].name) > 0) continue;
      return Invalid(absl::StrCat("is bound to weight '", blob_.weights[w].ToString(),
                                  "' without the weight itself"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSizes() const {
    if (blob_.chunk < 1 || blob_.chunk > blob_.context || blob_.context > UINT32_MAX) {
      return Invalid(
          absl::StrCat("a chunk of ", blob_.chunk, " does not fit a context of ", blob_.context));
    }
    if (blob_.vocabulary < 1 || blob_.vocabulary > UINT32_MAX) {
      return Invalid(absl::StrCat("a vocabulary of ", blob_.vocabulary, " cannot be"));
    }
    if (blob_.arena_bytes > uint64_t{1} << 62)
      return Invalid("the arena is larger than 2^62 bytes");
    return absl::OkStatus();
  }

  absl::Status CheckPlace(absl::string_view what, uint64_t offset, uint64_t bytes) const {
    if (offset % kScratchAlignment == 0 && RangeFits(offset, bytes, blob_.arena_bytes)) {
      return absl::OkStatus();
    }
    return Invalid(absl::StrCat(what, " of ", bytes, " bytes cannot lie at offset ", offset,
                                " of an arena of ", blob_.arena_bytes));
  }

  absl::Status CheckPlaces() {
    if (blob_.scratch_bytes > 0) {
      NPUBANK_RETURN_IF_ERROR(CheckPlace("scratch", blob_.scratch_offset, blob_.scratch_bytes));
      // No value has this number; it stays forever.
      arena_.Hold({0, blob_.scratch_offset, blob_.scratch_offset + blob_.scratch_bytes},
                  UINT32_MAX);
    }
    for (const SubmodelValue& value : blob_.values) {
      for (int64_t dim : value.type.shape().dims()) {
        if (dim < 1) return Invalid(absl::StrCat("value '", value.name, "' is empty"));
      }
      if (value.placement == Placement::kArena) {
        NPUBANK_RETURN_IF_ERROR(CheckPlace(absl::StrCat("value '", value.name, "'"), value.offset,
                                           value.type.bytes()));
      } else if (value.placement > Placement::kState) {
        return Invalid(absl::StrCat("value '", value.name, "' is placed nowhere"));
      }
    }
    return absl::OkStatus();
  }

  // A small file can call a large function many times.
  absl::Status CheckLength() const {
    size_t operations = 0;
    for (const Call& call : blob_.calls) {
      if (call.function >= blob_.functions.size()) {
        return Invalid(absl::StrCat("call '", call.name, "' calls a function that is not there"));
      }
      operations += FunctionOf(call).ops.size();
      if (operations > kMaxOperations) {
        return Invalid(absl::StrCat("runs more than ", kMaxOperations, " operations"));
      }
    }
    return absl::OkStatus();
  }

  const Function& FunctionOf(const Call& call) const {
    return blob_.functions[call.function].function;
  }

  void NoteReads(int64_t number, const Call& call) {
    for (size_t a = 0; a < call.arguments.size(); ++a) {
      if (call.arguments[a].kind == BindingKind::kValue &&
          FunctionOf(call).arguments[a].kind == ArgumentKind::kInput) {
        last_call_[call.arguments[a].index] = number;
      }
    }
  }

  // Indices, types and kinds.
  absl::Status CheckBindings(const Call& call) {
    const Function& function = FunctionOf(call);
    if (call.arguments.size() != function.arguments.size()) {
      return Invalid(absl::StrCat("binds ", call.arguments.size(), " of ",
                                  function.arguments.size(), " arguments"));
    }
    const std::set<uint64_t>& changed = changed_[call.function];
    std::set<uint32_t> states;
    std::set<uint32_t> changed_states;
    for (size_t a = 0; a < call.arguments.size(); ++a) {
      const FunctionArgument& argument = function.arguments[a];
      const Binding& binding = call.arguments[a];
      NPUBANK_RETURN_IF_ERROR(Annotate(CheckBinding(function, argument, binding),
                                       absl::StrCat("argument '", argument.name, "'")));
      const bool state = binding.kind == BindingKind::kValue &&
                         blob_.values[binding.index].placement == Placement::kState;
      if (changed.count(a) > 0 && !state) {
        return Invalid(
            absl::StrCat("argument '", argument.name, "' is written to and not bound to a state"));
      }
      if (!state) continue;
      const bool again = !states.insert(binding.index).second;
      if (changed.count(a) > 0) changed_states.insert(binding.index);
      if (again && changed_states.count(binding.index) > 0) {
        return Invalid(absl::StrCat("state '", blob_.values[binding.index].name,
                                    "' is written to and bound twice"));
      }
    }
    return CheckClosure(call);
  }

  // The numbers of the input arguments that the function writes to.
  static std::set<uint64_t> ChangedInputs(const Function& function) {
    std::set<uint64_t> changed;
    for (const FunctionOp& op : function.ops) {
      if (op.kind == OpKind::kCacheWrite) changed.insert(function.values[op.output].place);
    }
    return changed;
  }

  absl::Status CheckBinding(const Function& function, const FunctionArgument& argument,
                            const Binding& binding) {
    const bool scratch = argument.name == kScratchArgument;
    if (scratch != (binding.kind == BindingKind::kScratch)) {
      return Invalid("scratch is bound to another argument, or another thing to scratch");
    }
    if (scratch) {
      if (function.scratch_bytes <= blob_.scratch_bytes) return absl::OkStatus();
      return Invalid(
          absl::StrCat("needs ", function.scratch_bytes, " bytes of ", blob_.scratch_bytes));
    }
    if (binding.kind == BindingKind::kWeight) return CheckWeight(argument, binding.index);
    if (binding.kind != BindingKind::kValue || binding.index >= blob_.values.size()) {
      return Invalid("is bound to something that is not there");
    }
    const SubmodelValue& value = blob_.values[binding.index];
    if (value.type != argument.type) {
      return Invalid(absl::StrCat("is ", argument.type.ToString(), ", but value '", value.name,
                                  "' is ", value.type.ToString()));
    }
    const bool writable =
        value.placement == Placement::kArena || value.placement == Placement::kOutput;
    if (argument.kind == ArgumentKind::kOutput && !writable) {
      return Invalid(absl::StrCat("is an output bound to value '", value.name,
                                  "', which is an input or a state"));
    }
    return absl::OkStatus();
  }

  // The recipes tell a weight's type; here all that is bound to it must agree.
  absl::Status CheckWeight(const FunctionArgument& argument, uint32_t weight) {
    if (weight >= blob_.weights.size()) return Invalid("is bound to a weight that is not there");
    if (argument.kind == ArgumentKind::kOutput) return Invalid("is an output bound to a weight");
    std::optional<TensorType>& type = weight_types_[weight];
    if (!type.has_value()) type = argument.type;
    if (*type == argument.type) return absl::OkStatus();
    return Invalid(absl::StrCat("is ", argument.type.ToString(), ", but weight '",
                                blob_.weights[weight].ToString(), "' is ", type->ToString(),
                                " elsewhere"));
  }

  MemoryRange RangeOf(uint32_t value) const {
    const SubmodelValue& v = blob_.values[value];
    return {0, v.offset, v.offset + v.type.bytes()};
  }

  bool InArena(uint32_t value) const { return blob_.values[value].placement == Placement::kArena; }

  // What the call reads exists, and what it writes is not over anything that is read later.
  absl::Status Step(int64_t number, const Call& call) {
    const std::vector<FunctionArgument>& arguments = FunctionOf(call).arguments;
    std::vector<uint32_t> inputs;
    std::vector<uint32_t> outputs;
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (call.arguments[a].kind != BindingKind::kValue) continue;
      const bool input = arguments[a].kind == ArgumentKind::kInput;
      (input ? inputs : outputs).push_back(call.arguments[a].index);
    }
    for (uint32_t value : inputs) NPUBANK_RETURN_IF_ERROR(CheckMade(value));
    NPUBANK_RETURN_IF_ERROR(DropOverwritten(number, call));
    for (uint32_t value : outputs) NPUBANK_RETURN_IF_ERROR(Make(value));
    for (uint32_t value : inputs) DropDead(number, value);
    for (uint32_t value : outputs) DropDead(number, value);
    return absl::OkStatus();
  }

  absl::Status CheckMade(uint32_t value) const {
    const Placement placement = blob_.values[value].placement;
    if (placement == Placement::kInput || placement == Placement::kState || made_[value]) {
      return absl::OkStatus();
    }
    return Invalid(
        absl::StrCat("value '", blob_.values[value].name, "' is used before it is made"));
  }

  // Inputs that outputs lie on.
  absl::Status DropOverwritten(int64_t number, const Call& call) {
    for (size_t a = 0; a < call.arguments.size(); ++a) {
      const FunctionArgument& argument = FunctionOf(call).arguments[a];
      if (argument.over < 0) continue;
      const Binding& from = call.arguments[static_cast<size_t>(argument.over)];
      const uint32_t output = call.arguments[a].index;
      if (from.kind != BindingKind::kValue || !InArena(from.index) || !InArena(output) ||
          !(RangeOf(from.index) == RangeOf(output)) || last_call_[from.index] != number) {
        return Invalid(absl::StrCat("output '", argument.name,
                                    "' does not lie on a value of the arena that dies here"));
      }
      arena_.Drop(RangeOf(from.index), from.index);
    }
    return absl::OkStatus();
  }

  absl::Status Make(uint32_t value) {
    const std::string& name = blob_.values[value].name;
    if (made_[value]) return Invalid(absl::StrCat("value '", name, "' is made twice"));
    made_[value] = true;
    if (!InArena(value) || arena_.Hold(RangeOf(value), value)) return absl::OkStatus();
    return Invalid(
        absl::StrCat("value '", name, "' is written over the scratch or a value still needed"));
  }

  void DropDead(int64_t number, uint32_t value) {
    if (InArena(value) && last_call_[value] <= number) arena_.Drop(RangeOf(value), value);
  }

  absl::Status CheckComplete() const {
    for (size_t v = 0; v < blob_.values.size(); ++v) {
      const SubmodelValue& value = blob_.values[v];
      const bool needed =
          value.placement == Placement::kArena || value.placement == Placement::kOutput;
      if (needed && !made_[v]) {
        return Invalid(absl::StrCat("value '", value.name, "' is never made"));
      }
    }
    for (size_t w = 0; w < weight_types_.size(); ++w) {
      if (weight_types_[w].has_value()) continue;
      return Invalid(
          absl::StrCat("weight '", blob_.weights[w].ToString(), "' is bound to no call"));
    }
    return absl::OkStatus();
  }

  const SubmodelBlob& blob_;
  std::vector<bool> made_;
  std::vector<int64_t> last_call_;  // by value: the last call that reads it
  std::vector<std::optional<TensorType>> weight_types_;
  std::vector<std::set<uint64_t>> changed_;  // by function: the input arguments it writes to
  LiveRanges arena_;
};

}  // namespace

absl::Status CheckSubmodel(const SubmodelBlob& blob) {
  NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(blob.name), "submodel"));
  return Annotate(SubmodelChecker(blob).Check(), absl::StrCat("submodel '", blob.name, "'"));
}

}  // namespace npubank

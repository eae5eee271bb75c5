#include "npubank/compiler_stub/blob/function_storage.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/live_ranges.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

class StorageChecker {
 public:
  explicit StorageChecker(const Function& function)
      : function_(function),
        made_(function.values.size(), false),
        uses_left_(function.values.size(), 0) {}

  absl::Status Check() {
    NPUBANK_RETURN_IF_ERROR(Begin());
    for (const FunctionOp& op : function_.ops) {
      NPUBANK_RETURN_IF_ERROR(Annotate(Step(op), absl::StrCat("operation '", op.name, "'")));
    }
    return End();
  }

 private:
  // Counts uses and makes the values that no operation makes: the input arguments.
  absl::Status Begin() {
    std::vector<bool> has_maker(function_.values.size(), false);
    for (const FunctionOp& op : function_.ops) {
      if (has_maker[op.output]) {
        return absl::InvalidArgumentError(
            absl::StrCat("operation '", op.name, "': value '", Name(op.output), "' is made twice"));
      }
      has_maker[op.output] = true;
      for (uint32_t input : op.inputs) ++uses_left_[input];
    }
    for (uint32_t v = 0; v < function_.values.size(); ++v) {
      if (has_maker[v]) continue;
      const FunctionValue& value = function_.values[v];
      if (value.storage != Storage::kArgument ||
          function_.arguments[value.place].kind != ArgumentKind::kInput) {
        return absl::InvalidArgumentError(absl::StrCat(
            "value '", value.name, "' is neither made by an operation nor an input argument"));
      }
      if (!Hold(v)) {
        return absl::InvalidArgumentError(
            absl::StrCat("value '", value.name, "' lies in an argument that another value has"));
      }
      made_[v] = true;
    }
    return absl::OkStatus();
  }

  absl::Status Step(const FunctionOp& op) {
    for (uint32_t input : op.inputs) {
      if (!made_[input]) {
        return absl::InvalidArgumentError(
            absl::StrCat("value '", Name(input), "' is used before it is made"));
      }
      --uses_left_[input];
    }
    NPUBANK_RETURN_IF_ERROR(CheckOverwritten(op));
    NPUBANK_RETURN_IF_ERROR(CheckWritable(op));
    // Inputs that die here hold their bytes until the operation is done, but for the one written
    // over.
    for (uint32_t input : op.inputs) {
      if (uses_left_[input] == 0 && Same(input, op.output)) Drop(input);
    }
    if (!Hold(op.output)) {
      return absl::InvalidArgumentError(
          absl::StrCat("value '", Name(op.output), "' is written over value '",
                       Name(*live_.FindOverlap(RangeOf(op.output))), "'"));
    }
    made_[op.output] = true;
    for (uint32_t input : op.inputs) {
      if (uses_left_[input] == 0) Drop(input);
    }
    if (uses_left_[op.output] == 0) Drop(op.output);
    return absl::OkStatus();
  }

  // Inputs that lie where the output goes: only where the operation can work in place, on values
  // that die.
  absl::Status CheckOverwritten(const FunctionOp& op) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool same = Same(op.inputs[i], op.output);
      const bool always = (op.kind == OpKind::kCacheWrite && i == 1) ||
                          (op.kind == OpKind::kAttentionMix && i == 3);
      if (always && !same) {
        return absl::InvalidArgumentError(
            absl::StrCat("the output must lie on input ", i, " '", Name(op.inputs[i]), "'"));
      }
      if (same && (!OutputMayOverwrite(op, i) || uses_left_[op.inputs[i]] != 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the output must not lie on input ", i, " '", Name(op.inputs[i]), "'"));
      }
    }
    return absl::OkStatus();
  }

  // Input arguments belong to the caller; only a cache write changes one.
  absl::Status CheckWritable(const FunctionOp& op) const {
    const FunctionValue& output = function_.values[op.output];
    const bool argument = output.storage == Storage::kArgument;
    const bool input = argument && function_.arguments[output.place].kind == ArgumentKind::kInput;
    if (op.kind == OpKind::kCacheWrite ? input : !input) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("value '", output.name, "' must ",
                     input ? "not be written into an input argument" : "lie in an input argument"));
  }

  // Every output argument is written.
  absl::Status End() const {
    std::vector<bool> written(function_.arguments.size(), false);
    for (const FunctionOp& op : function_.ops) {
      const FunctionValue& output = function_.values[op.output];
      if (output.storage == Storage::kArgument) written[output.place] = true;
    }
    for (size_t i = 0; i < written.size(); ++i) {
      const FunctionArgument& argument = function_.arguments[i];
      if (written[i] || argument.kind == ArgumentKind::kInput) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("argument '", argument.name, "' is an output that nothing writes"));
    }
    return absl::OkStatus();
  }

  const std::string& Name(uint32_t value) const { return function_.values[value].name; }

  // Each argument is a room of its own, but for an output that lies on an input; scratch is room 0.
  MemoryRange RangeOf(uint32_t number) const {
    const FunctionValue& value = function_.values[number];
    const uint64_t bytes = value.type.bytes();
    if (value.storage == Storage::kScratch) return {0, value.place, value.place + bytes};
    const int32_t over = function_.arguments[value.place].over;
    return {1 + (over < 0 ? value.place : static_cast<uint64_t>(over)), 0, bytes};
  }

  bool Same(uint32_t a, uint32_t b) const { return RangeOf(a) == RangeOf(b); }
  bool Hold(uint32_t value) { return live_.Hold(RangeOf(value), value); }
  void Drop(uint32_t value) { live_.Drop(RangeOf(value), value); }

  const Function& function_;
  std::vector<bool> made_;
  std::vector<uint32_t> uses_left_;
  LiveRanges live_;
};

}  // namespace

absl::Status CheckStorage(const Function& function) { return StorageChecker(function).Check(); }

}  // namespace npubank

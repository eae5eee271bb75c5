#include "npubank/compiler_stub/views/plan_view.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/lazy_tensor/base/align.h"

namespace npubank {
namespace {

constexpr uint64_t kMostBytes = std::numeric_limits<uint64_t>::max();

// What a place holds at a moment: one value after the other, as time goes on.
class ViewBuilder {
 public:
  // Operation `time` makes a value. Over the value that lies there and is read last by `time`, it
  // goes into the same buffer.
  void Make(int64_t time, std::string kind, std::string name, uint64_t offset, uint64_t bytes,
            bool over) {
    const auto there = current_.find(offset);
    if (over && there != current_.end()) {
      Buffer& buffer = view_.problem.buffers[there->second];
      buffer.upper = std::max(buffer.upper, time + 1);
      buffer.values.push_back(std::move(name));
      return;
    }
    Buffer buffer;
    buffer.id = absl::StrCat(view_.problem.buffers.size(), " ", name);
    buffer.lower = time;
    buffer.upper = time + 1;
    buffer.size = AlignUp(bytes, kScratchAlignment);
    buffer.alignment = kScratchAlignment;
    buffer.kind = std::move(kind);
    buffer.values = {std::move(name)};
    current_[offset] = view_.problem.buffers.size();
    view_.problem.buffers.push_back(std::move(buffer));
    view_.offsets.push_back(offset);
  }

  // A value that could have memory of its own.
  void Count(uint64_t bytes) {
    // A hostile plan can add up to more than a number holds.
    view_.sum_of_values += std::min(bytes, kMostBytes - view_.sum_of_values);
  }

  void Read(int64_t time, uint64_t offset) {
    const auto there = current_.find(offset);
    if (there == current_.end()) return;
    Buffer& buffer = view_.problem.buffers[there->second];
    buffer.upper = std::max(buffer.upper, time + 1);
  }

  PlanView Finish(std::string name, uint64_t bytes, int64_t operations) {
    view_.name = std::move(name);
    view_.bytes = bytes;
    view_.operations = operations;
    view_.lower_bound = LiveLowerBound(view_.problem);
    return std::move(view_);
  }

 private:
  PlanView view_;
  std::map<uint64_t, size_t> current_;  // the last buffer that began at an offset
};

// Where a value of a function lies in the block that is viewed; nullopt when it is elsewhere.
using Locate = std::function<std::optional<uint64_t>(const FunctionValue& value)>;

// The operations of one run of `function`, the first at `time`; names get `prefix`.
void AddRun(const Function& function, int64_t time, const std::string& prefix, const Locate& locate,
            ViewBuilder& builder) {
  for (const FunctionOp& op : function.ops) {
    const FunctionValue& output = function.values[op.output];
    const std::optional<uint64_t> place = locate(output);
    bool over = false;
    for (uint32_t input : op.inputs) {
      const std::optional<uint64_t> from = locate(function.values[input]);
      if (!from.has_value()) continue;
      builder.Read(time, *from);
      over = over || from == place;
    }
    if (place.has_value()) {
      const bool one_of_many = op.kind == OpKind::kAttentionMix && op.inputs.size() > 3;
      if (!one_of_many) builder.Count(output.type.bytes());
      builder.Make(time, absl::AsciiStrToLower(OpKindName(op.kind)), prefix + output.name, *place,
                   output.type.bytes(), over);
    }
    ++time;
  }
}

}  // namespace

PlanView ViewPlan(const Function& function) {
  ViewBuilder builder;
  const Locate locate = [](const FunctionValue& value) -> std::optional<uint64_t> {
    if (value.storage != Storage::kScratch) return std::nullopt;
    return value.place;
  };
  AddRun(function, 0, "", locate, builder);
  return builder.Finish(function.name, function.scratch_bytes,
                        static_cast<int64_t>(function.ops.size()));
}

PlanView ViewPlan(const SubmodelBlob& blob) {
  ViewBuilder builder;
  int64_t time = 0;
  for (const Call& call : blob.calls) {
    const Function& function = blob.functions[call.function].function;
    const Locate locate = [&](const FunctionValue& value) -> std::optional<uint64_t> {
      if (value.storage == Storage::kScratch) {
        return blob.scratch_offset + value.place;
      }
      const Binding& binding = call.arguments[value.place];
      if (binding.kind != BindingKind::kValue) return std::nullopt;
      const SubmodelValue& bound = blob.values[binding.index];
      if (bound.placement != Placement::kArena) return std::nullopt;
      return bound.offset;
    };
    AddRun(function, time, absl::StrCat(call.name, ": "), locate, builder);
    time += static_cast<int64_t>(function.ops.size());
  }
  return builder.Finish(blob.name, blob.arena_bytes, time);
}

}  // namespace npubank

// FunctionMaker: functions for tests, a line an operation, each value with a place that the test
// gives or in scratch of its own.
//
//   FunctionMaker maker("f");
//   uint32_t x = maker.Input("x", F32({4, 8}));
//   uint32_t y = maker.Op(OpKind::kRmsNorm, {x, w}, F32({4, 8}));
//   Function function = maker.Finish({y});   // y becomes the output argument
#ifndef NPUBANK_TESTS_UNIT_COMPILER_FUNCTION_MAKER_H_
#define NPUBANK_TESTS_UNIT_COMPILER_FUNCTION_MAKER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/blob/function_check.h"

namespace npubank {

inline TensorType Type(ElementType element, std::vector<int64_t> dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}
inline TensorType F32(std::vector<int64_t> dims) {
  return Type(ElementType::kF32, std::move(dims));
}
inline TensorType I32(std::vector<int64_t> dims) {
  return Type(ElementType::kI32, std::move(dims));
}

// A function's or a submodel's blob as a writer of that version made it.
std::string OfVersion(std::string blob, uint32_t version);

class FunctionMaker {
 public:
  explicit FunctionMaker(std::string name) { function_.name = std::move(name); }

  uint32_t Input(const std::string& name, TensorType type) {
    const uint64_t place = function_.arguments.size();
    function_.arguments.push_back({name, ArgumentKind::kInput, type, -1});
    return AddValue({name, std::move(type), Storage::kArgument, place});
  }

  uint32_t Op(OpKind kind, std::vector<uint32_t> inputs, TensorType type,
              OpAttributes attributes = {}) {
    const uint64_t place = scratch_;
    scratch_ += (type.bytes() + 63) / 64 * 64;
    return OpAt(kind, std::move(inputs), {"", std::move(type), Storage::kScratch, place},
                std::move(attributes));
  }

  // Over the value `over`, in its place.
  uint32_t OpOver(OpKind kind, std::vector<uint32_t> inputs, uint32_t over,
                  OpAttributes attributes = {}) {
    return OpAt(kind, std::move(inputs), function_.values[over], std::move(attributes));
  }

  // The values in `outputs` move to arguments, with all that lies in their places.
  Function Finish(const std::vector<uint32_t>& outputs) {
    Function function = function_;
    function.scratch_bytes = scratch_;
    if (scratch_ > 0) {
      function.arguments.push_back({kScratchArgument, ArgumentKind::kInput,
                                    Type(ElementType::kU8, {static_cast<int64_t>(scratch_)}), -1});
    }
    for (uint32_t output : outputs) {
      const FunctionValue from = function.values[output];
      for (FunctionValue& value : function.values) {
        if (value.storage != Storage::kScratch || value.place != from.place) continue;
        value.storage = Storage::kArgument;
        value.place = function.arguments.size();
      }
      function.arguments.push_back(
          {absl::StrCat("out", output), ArgumentKind::kOutput, from.type, -1});
    }
    return function;
  }

 private:
  uint32_t AddValue(FunctionValue value) {
    function_.values.push_back(std::move(value));
    return static_cast<uint32_t>(function_.values.size() - 1);
  }

  uint32_t OpAt(OpKind kind, std::vector<uint32_t> inputs, FunctionValue value,
                OpAttributes attributes) {
    const std::string name = absl::StrCat("op", function_.ops.size());
    value.name = name;
    const uint32_t output = AddValue(std::move(value));
    function_.ops.push_back({kind, name, std::move(inputs), output, std::move(attributes)});
    return output;
  }

  Function function_;
  uint64_t scratch_ = 0;
};

// A decoder layer of two heads over one key head: every kind of operation but Embed and SelectLast,
// which are in MakeEnds.
Function MakeLayer();
Function MakeEnds();

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_COMPILER_FUNCTION_MAKER_H_

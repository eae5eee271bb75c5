#include "npubank/compiler_stub/blob/function_blob.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/blob_reader.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/function_generated.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint32_t kVersion = 3;  // 1: plain weights only; 2: no windows
constexpr uint32_t kMaxArguments = 4096;
constexpr uint32_t kMaxValues = 1u << 16;
constexpr uint32_t kMaxOps = 1u << 16;

class FunctionReader {
 public:
  explicit FunctionReader(BlobReader& blob) : blob_(blob) {}

  absl::Status ReadParts(const fbs::Function& from, Function& function) {
    NPUBANK_RETURN_IF_ERROR(blob_.ReadAll(
        from.arguments(), "argument", kMaxArguments,
        [this](const fbs::Argument& argument) { return ReadArgument(argument); },
        function.arguments));
    NPUBANK_RETURN_IF_ERROR(blob_.ReadAll(
        from.values(), "value", kMaxValues,
        [this](const fbs::Value& value) { return ReadValue(value); }, function.values));
    NPUBANK_RETURN_IF_ERROR(blob_.ReadAll(
        from.ops(), "operation", kMaxOps, [this](const fbs::Op& op) { return ReadOp(op); },
        function.ops));
    function.scratch_bytes = from.scratch_bytes();
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<FunctionArgument> ReadArgument(const fbs::Argument& from) {
    FunctionArgument argument;
    NPUBANK_ASSIGN_OR_RETURN(argument.name, blob_.ReadName(from.name()));
    argument.kind = static_cast<ArgumentKind>(from.kind());
    NPUBANK_ASSIGN_OR_RETURN(argument.type, blob_.ReadType(from.element(), from.dims()));
    argument.over = from.over();
    return argument;
  }

  absl::StatusOr<FunctionValue> ReadValue(const fbs::Value& from) {
    FunctionValue value;
    NPUBANK_ASSIGN_OR_RETURN(value.name, blob_.ReadName(from.name()));
    NPUBANK_ASSIGN_OR_RETURN(value.type, blob_.ReadType(from.element(), from.dims()));
    value.storage = static_cast<Storage>(from.storage());
    value.place = from.place();
    return value;
  }

  absl::StatusOr<FunctionOp> ReadOp(const fbs::Op& from) {
    FunctionOp op;
    op.kind = static_cast<OpKind>(from.kind());
    NPUBANK_ASSIGN_OR_RETURN(op.name, blob_.ReadName(from.name()));
    NPUBANK_RETURN_IF_ERROR(blob_.ReadNumbers(from.inputs(), op.inputs));
    op.output = from.output();
    OpAttributes& attributes = op.attributes;
    attributes.epsilon = from.epsilon();
    NPUBANK_RETURN_IF_ERROR(blob_.ReadNumbers(from.frequencies(), attributes.frequencies));
    attributes.interleaved = from.interleaved();
    attributes.head_dim = from.head_dim();
    attributes.heads = from.heads();
    attributes.first_head = from.first_head();
    attributes.heads_per_kv_head = from.heads_per_kv_head();
    attributes.scale = from.scale();
    attributes.transposed = from.transposed();
    const std::optional<WeightForm> form = WeightForm::FromNumber(from.form());
    if (!form.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operation '", op.name, "': weight form ", from.form(), " is not known"));
    }
    attributes.form = *form;
    if (from.window() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("operation '", op.name, "': window ", from.window(), " is out of range"));
    }
    attributes.window = static_cast<int64_t>(from.window());
    return op;
  }

  BlobReader& blob_;
};

flatbuffers::Offset<fbs::Op> WriteOp(flatbuffers::FlatBufferBuilder& builder,
                                     const FunctionOp& op) {
  const OpAttributes& a = op.attributes;
  const auto name = builder.CreateString(op.name);
  const auto inputs = builder.CreateVector(op.inputs);
  const auto frequencies = a.frequencies.empty() ? 0 : builder.CreateVector(a.frequencies);
  return fbs::CreateOp(builder, static_cast<fbs::OpKind>(op.kind), name, inputs, op.output,
                       a.epsilon, frequencies, a.interleaved, static_cast<uint32_t>(a.head_dim),
                       static_cast<uint32_t>(a.heads), static_cast<uint32_t>(a.first_head),
                       static_cast<uint32_t>(a.heads_per_kv_head), a.scale, a.transposed,
                       a.form.Number(), static_cast<uint64_t>(a.window));
}

}  // namespace

size_t WeightInputs(const FunctionOp& op) { return op.attributes.form.Parts().size(); }

absl::StatusOr<Function> ReadFunctionBlob(absl::string_view bytes) {
  NPUBANK_ASSIGN_OR_RETURN(const auto root, FlatbufferRoot<fbs::Function>::Open(
                                                bytes, fbs::FunctionIdentifier(), "function blob"));
  const fbs::Function& from = *root;
  if (from.version() != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("function blob: version ", from.version(), ", this reader knows ", kVersion));
  }
  Function function;
  BlobReader reader(bytes.size());
  absl::StatusOr<std::string> name = reader.ReadName(from.name());
  if (!name.ok()) return Annotate(name.status(), "function blob");
  function.name = *std::move(name);
  NPUBANK_RETURN_IF_ERROR(Annotate(FunctionReader(reader).ReadParts(from, function),
                                   absl::StrCat("function '", function.name, "'")));
  NPUBANK_RETURN_IF_ERROR(CheckFunction(function));
  return function;
}

std::string WriteFunctionBlob(const Function& function) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fbs::Argument>> arguments;
  for (const FunctionArgument& argument : function.arguments) {
    const auto name = builder.CreateString(argument.name);
    const auto dims = WriteDims(builder, argument.type);
    arguments.push_back(fbs::CreateArgument(builder, name,
                                            static_cast<fbs::ArgumentKind>(argument.kind),
                                            ElementNumber(argument.type), dims, argument.over));
  }
  std::vector<flatbuffers::Offset<fbs::Value>> values;
  for (const FunctionValue& value : function.values) {
    const auto name = builder.CreateString(value.name);
    const auto dims = WriteDims(builder, value.type);
    values.push_back(fbs::CreateValue(builder, name, ElementNumber(value.type), dims,
                                      static_cast<fbs::Storage>(value.storage), value.place));
  }
  std::vector<flatbuffers::Offset<fbs::Op>> ops;
  for (const FunctionOp& op : function.ops) ops.push_back(WriteOp(builder, op));
  const auto name = builder.CreateString(function.name);
  const auto argument_vector = builder.CreateVector(arguments);
  const auto value_vector = builder.CreateVector(values);
  const auto op_vector = builder.CreateVector(ops);
  builder.Finish(fbs::CreateFunction(builder, kVersion, name, argument_vector, value_vector,
                                     op_vector, function.scratch_bytes),
                 fbs::FunctionIdentifier());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

}  // namespace npubank

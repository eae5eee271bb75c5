#include "compiler_stub/function_blob.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler_stub/flatbuffer_root.h"
#include "compiler_stub/function_check.h"
#include "compiler_stub/function_generated.h"
#include "compiler_stub/tensor_type_fields.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxArguments = 4096;
constexpr uint32_t kMaxValues = 1u << 16;
constexpr uint32_t kMaxOps = 1u << 16;
constexpr uint32_t kMaxOpInputs = 16;
constexpr uint32_t kMaxFrequencies = 1024;
constexpr uint32_t kMaxTextLength = 255;

absl::Status CheckCount(absl::string_view what, uint32_t count, uint32_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(count, " ", what, ", more than ", limit));
}

// A name no longer than a check may quote; CheckFunction judges the rest.
absl::StatusOr<std::string> ReadName(const flatbuffers::String* text) {
  const absl::string_view name = TextOf(text);
  if (name.size() <= kMaxTextLength) return std::string(name);
  return absl::InvalidArgumentError("a name is longer than 255 characters");
}

absl::StatusOr<FunctionArgument> ReadArgument(const fbs::Argument& from) {
  FunctionArgument argument;
  NPUBANK_ASSIGN_OR_RETURN(argument.name, ReadName(from.name()));
  argument.kind = static_cast<ArgumentKind>(from.kind());
  NPUBANK_ASSIGN_OR_RETURN(argument.type, ReadTensorType(from.element(), from.dims()));
  return argument;
}

absl::StatusOr<FunctionValue> ReadValue(const fbs::Value& from) {
  FunctionValue value;
  NPUBANK_ASSIGN_OR_RETURN(value.name, ReadName(from.name()));
  NPUBANK_ASSIGN_OR_RETURN(value.type, ReadTensorType(from.element(), from.dims()));
  value.storage = static_cast<Storage>(from.storage());
  value.place = from.place();
  return value;
}

absl::StatusOr<FunctionOp> ReadOp(const fbs::Op& from) {
  FunctionOp op;
  op.kind = static_cast<OpKind>(from.kind());
  NPUBANK_ASSIGN_OR_RETURN(op.name, ReadName(from.name()));
  NPUBANK_RETURN_IF_ERROR(CheckCount("inputs", SizeOf(from.inputs()), kMaxOpInputs));
  NPUBANK_RETURN_IF_ERROR(CheckCount("frequencies", SizeOf(from.frequencies()), kMaxFrequencies));
  if (from.inputs() != nullptr) op.inputs.assign(from.inputs()->begin(), from.inputs()->end());
  op.output = from.output();
  OpAttributes& attributes = op.attributes;
  attributes.epsilon = from.epsilon();
  if (from.frequencies() != nullptr) {
    attributes.frequencies.assign(from.frequencies()->begin(), from.frequencies()->end());
  }
  attributes.interleaved = from.interleaved();
  attributes.head_dim = from.head_dim();
  attributes.heads = from.heads();
  attributes.first_head = from.first_head();
  attributes.heads_per_kv_head = from.heads_per_kv_head();
  attributes.scale = from.scale();
  attributes.transposed = from.transposed();
  return op;
}

// Reads each table of `from` into `to`.
template <typename Table, typename Item>
absl::Status ReadAll(const flatbuffers::Vector<flatbuffers::Offset<Table>>* from,
                     absl::string_view what, uint32_t limit,
                     absl::StatusOr<Item> (*read)(const Table&), std::vector<Item>& to) {
  NPUBANK_RETURN_IF_ERROR(CheckCount(what, SizeOf(from), limit));
  to.reserve(SizeOf(from));
  for (uint32_t i = 0; i < SizeOf(from); ++i) {
    absl::StatusOr<Item> item = read(*from->Get(i));
    if (!item.ok()) return Annotate(item.status(), absl::StrCat(what, " ", i));
    to.push_back(*std::move(item));
  }
  return absl::OkStatus();
}

absl::Status ReadParts(const fbs::Function& from, Function& function) {
  NPUBANK_RETURN_IF_ERROR(
      ReadAll(from.arguments(), "arguments", kMaxArguments, &ReadArgument, function.arguments));
  NPUBANK_RETURN_IF_ERROR(
      ReadAll(from.values(), "values", kMaxValues, &ReadValue, function.values));
  NPUBANK_RETURN_IF_ERROR(ReadAll(from.ops(), "operations", kMaxOps, &ReadOp, function.ops));
  function.scratch_bytes = from.scratch_bytes();
  return absl::OkStatus();
}

flatbuffers::Offset<fbs::Op> WriteOp(flatbuffers::FlatBufferBuilder& builder,
                                     const FunctionOp& op) {
  const OpAttributes& a = op.attributes;
  const auto name = builder.CreateString(op.name);
  const auto inputs = builder.CreateVector(op.inputs);
  const auto frequencies = a.frequencies.empty() ? 0 : builder.CreateVector(a.frequencies);
  return fbs::CreateOp(builder, static_cast<fbs::OpKind>(op.kind), name, inputs, op.output,
                       a.epsilon, frequencies, a.interleaved, static_cast<uint32_t>(a.head_dim),
                       static_cast<uint32_t>(a.heads), static_cast<uint32_t>(a.first_head),
                       static_cast<uint32_t>(a.heads_per_kv_head), a.scale, a.transposed);
}

}  // namespace

absl::StatusOr<Function> ReadFunctionBlob(absl::string_view bytes) {
  absl::StatusOr<FlatbufferRoot<fbs::Function>> root =
      FlatbufferRoot<fbs::Function>::Open(bytes, fbs::FunctionIdentifier());
  if (!root.ok()) return Annotate(root.status(), "function blob");
  const fbs::Function& from = **root;
  if (from.version() != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("function blob: version ", from.version(), ", this reader knows ", kVersion));
  }
  Function function;
  absl::StatusOr<std::string> name = ReadName(from.name());
  if (!name.ok()) return Annotate(name.status(), "function blob");
  function.name = *std::move(name);
  NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(function.name), "function blob"));
  NPUBANK_RETURN_IF_ERROR(
      Annotate(ReadParts(from, function), absl::StrCat("function '", function.name, "'")));
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
                                            ElementNumber(argument.type), dims));
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

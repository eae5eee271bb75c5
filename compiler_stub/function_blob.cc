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

absl::Status CheckCount(absl::string_view what, uint32_t count, uint32_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(count, " ", what, ", more than ", limit));
}

// Copies a verified flatbuffer out. Many tables of a hostile file can share one vector, so the copy
// could be a thousand times the file: what is copied must have been in the file, byte for byte.
class FunctionReader {
 public:
  explicit FunctionReader(size_t bytes) : budget_(bytes) {}

  absl::StatusOr<std::string> ReadName(const flatbuffers::String* text) {
    const absl::string_view name = TextOf(text);
    NPUBANK_RETURN_IF_ERROR(Spend(name.size()));
    // Checked before any message quotes it.
    NPUBANK_RETURN_IF_ERROR(CheckName(name));
    return std::string(name);
  }

  absl::Status ReadParts(const fbs::Function& from, Function& function) {
    NPUBANK_RETURN_IF_ERROR(ReadAll(from.arguments(), "arguments", kMaxArguments,
                                    &FunctionReader::ReadArgument, function.arguments));
    NPUBANK_RETURN_IF_ERROR(
        ReadAll(from.values(), "values", kMaxValues, &FunctionReader::ReadValue, function.values));
    NPUBANK_RETURN_IF_ERROR(
        ReadAll(from.ops(), "operations", kMaxOps, &FunctionReader::ReadOp, function.ops));
    function.scratch_bytes = from.scratch_bytes();
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<FunctionArgument> ReadArgument(const fbs::Argument& from) {
    FunctionArgument argument;
    NPUBANK_ASSIGN_OR_RETURN(argument.name, ReadName(from.name()));
    argument.kind = static_cast<ArgumentKind>(from.kind());
    NPUBANK_ASSIGN_OR_RETURN(argument.type, ReadTensorType(from.element(), from.dims()));
    argument.over = from.over();
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
    NPUBANK_RETURN_IF_ERROR(CopyNumbers(from.inputs(), op.inputs));
    op.output = from.output();
    OpAttributes& attributes = op.attributes;
    attributes.epsilon = from.epsilon();
    NPUBANK_RETURN_IF_ERROR(CopyNumbers(from.frequencies(), attributes.frequencies));
    attributes.interleaved = from.interleaved();
    attributes.head_dim = from.head_dim();
    attributes.heads = from.heads();
    attributes.first_head = from.first_head();
    attributes.heads_per_kv_head = from.heads_per_kv_head();
    attributes.scale = from.scale();
    attributes.transposed = from.transposed();
    return op;
  }

  template <typename Number>
  absl::Status CopyNumbers(const flatbuffers::Vector<Number>* from, std::vector<Number>& to) {
    if (from == nullptr) return absl::OkStatus();
    NPUBANK_RETURN_IF_ERROR(Spend(uint64_t{from->size()} * sizeof(Number)));
    to.assign(from->begin(), from->end());
    return absl::OkStatus();
  }

  // Reads each table of `from` into `to`.
  template <typename Table, typename Item>
  absl::Status ReadAll(const flatbuffers::Vector<flatbuffers::Offset<Table>>* from,
                       absl::string_view what, uint32_t limit,
                       absl::StatusOr<Item> (FunctionReader::*read)(const Table&),
                       std::vector<Item>& to) {
    NPUBANK_RETURN_IF_ERROR(CheckCount(what, SizeOf(from), limit));
    to.reserve(SizeOf(from));
    for (uint32_t i = 0; i < SizeOf(from); ++i) {
      absl::StatusOr<Item> item = (this->*read)(*from->Get(i));
      if (!item.ok()) return Annotate(item.status(), absl::StrCat(what, " ", i));
      to.push_back(*std::move(item));
    }
    return absl::OkStatus();
  }

  absl::Status Spend(uint64_t bytes) {
    if (bytes > budget_) {
      return absl::InvalidArgumentError("parts of the blob are used more than once");
    }
    budget_ -= bytes;
    return absl::OkStatus();
  }

  uint64_t budget_;
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
  FunctionReader reader(bytes.size());
  absl::StatusOr<std::string> name = reader.ReadName(from.name());
  if (!name.ok()) return Annotate(name.status(), "function blob");
  function.name = *std::move(name);
  NPUBANK_RETURN_IF_ERROR(
      Annotate(reader.ReadParts(from, function), absl::StrCat("function '", function.name, "'")));
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

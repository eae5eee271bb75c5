#include "npubank/compiler_stub/blob/submodel_blob.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/blob_reader.h"
#include "npubank/compiler_stub/blob/submodel_check.h"
#include "npubank/compiler_stub/blob/submodel_generated.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint32_t kVersion = 2;  // 1: weights without parts
constexpr uint32_t kMaxFunctions = 4096;
constexpr uint32_t kMaxCalls = 1u << 16;
constexpr uint32_t kMaxValues = 1u << 16;
constexpr uint32_t kMaxWeights = 1u << 18;

class SubmodelReader {
 public:
  explicit SubmodelReader(BlobReader& blob) : blob_(blob) {}

  absl::Status ReadParts(const fbs::Submodel& from, SubmodelBlob& to) {
    to.chunk = from.chunk();
    to.context = from.context();
    to.vocabulary = from.vocabulary();
    to.arena_bytes = from.arena_bytes();
    to.scratch_offset = from.scratch_offset();
    to.scratch_bytes = from.scratch_bytes();
    NPUBANK_ASSIGN_OR_RETURN(to.recipes, blob_.ReadBytes(from.recipes()));
    NPUBANK_RETURN_IF_ERROR(blob_.ReadAll(
        from.functions(), "function", kMaxFunctions,
        [this](const fbs::NativeFunction& function) { return ReadFunction(function); },
        to.functions));
    NPUBANK_RETURN_IF_ERROR(blob_.ReadAll(
        from.values(), "value", kMaxValues,
        [this](const fbs::SubmodelValue& value) { return ReadValue(value); }, to.values));
    NPUBANK_RETURN_IF_ERROR(blob_.ReadAll(
        from.weights(), "weight", kMaxWeights,
        [this](const fbs::Weight& weight) { return ReadWeight(weight); }, to.weights));
    return blob_.ReadAll(
        from.calls(), "call", kMaxCalls, [this](const fbs::Call& call) { return ReadCall(call); },
        to.calls);
  }

 private:
  absl::StatusOr<SubmodelFunction> ReadFunction(const fbs::NativeFunction& from) {
    SubmodelFunction function;
    NPUBANK_ASSIGN_OR_RETURN(function.name, blob_.ReadName(from.name()));
    NPUBANK_ASSIGN_OR_RETURN(function.blob, blob_.ReadBytes(from.blob()));
    NPUBANK_ASSIGN_OR_RETURN(function.function, ReadFunctionBlob(function.blob));
    return function;
  }

  absl::StatusOr<SubmodelWeight> ReadWeight(const fbs::Weight& from) {
    SubmodelWeight weight;
    NPUBANK_ASSIGN_OR_RETURN(weight.name, blob_.ReadName(from.name()));
    weight.part = static_cast<WeightPart>(from.part());
    return weight;
  }

  absl::StatusOr<SubmodelValue> ReadValue(const fbs::SubmodelValue& from) {
    SubmodelValue value;
    NPUBANK_ASSIGN_OR_RETURN(value.name, blob_.ReadName(from.name()));
    NPUBANK_ASSIGN_OR_RETURN(value.type, blob_.ReadType(from.element(), from.dims()));
    value.placement = static_cast<Placement>(from.placement());
    value.offset = from.offset();
    return value;
  }

  absl::StatusOr<Call> ReadCall(const fbs::Call& from) {
    Call call;
    NPUBANK_ASSIGN_OR_RETURN(call.name, blob_.ReadName(from.name()));
    call.function = from.function();
    const uint32_t count = SizeOf(from.arguments());
    NPUBANK_RETURN_IF_ERROR(blob_.Spend(uint64_t{count} * sizeof(fbs::Binding)));
    for (uint32_t i = 0; i < count; ++i) {
      const fbs::Binding& binding = *from.arguments()->Get(i);
      call.arguments.push_back({static_cast<BindingKind>(binding.kind()), binding.index()});
    }
    return call;
  }

  BlobReader& blob_;
};

// Each table of `items`, made by `write`, as one vector.
template <typename Items, typename Write>
auto WriteAll(flatbuffers::FlatBufferBuilder& builder, const Items& items, Write write) {
  std::vector<decltype(write(*items.begin()))> offsets;
  for (const auto& item : items) offsets.push_back(write(item));
  return builder.CreateVector(offsets);
}

flatbuffers::Offset<flatbuffers::Vector<uint8_t>> WriteBytes(
    flatbuffers::FlatBufferBuilder& builder, const std::string& bytes) {
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

flatbuffers::Offset<fbs::Call> WriteCall(flatbuffers::FlatBufferBuilder& builder,
                                         const Call& call) {
  std::vector<fbs::Binding> bindings;
  for (const Binding& binding : call.arguments) {
    bindings.emplace_back(static_cast<fbs::BindingKind>(binding.kind), binding.index);
  }
  const auto name = builder.CreateString(call.name);
  const auto arguments = builder.CreateVectorOfStructs(bindings);
  return fbs::CreateCall(builder, name, call.function, arguments);
}

}  // namespace

std::string SubmodelWeight::ToString() const {
  if (part == WeightPart::kWeight) return name;
  return absl::StrCat(name, " (", WeightPartName(part), ")");
}

std::vector<uint32_t> Call::Closure() const {
  std::vector<uint32_t> weights;
  for (const Binding& binding : arguments) {
    if (binding.kind == BindingKind::kWeight) weights.push_back(binding.index);
  }
  return weights;
}

absl::StatusOr<SubmodelBlob> ReadSubmodelBlob(absl::string_view bytes) {
  NPUBANK_ASSIGN_OR_RETURN(const auto root, FlatbufferRoot<fbs::Submodel>::Open(
                                                bytes, fbs::SubmodelIdentifier(), "submodel blob"));
  const fbs::Submodel& from = *root;
  if (from.version() != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("submodel blob: version ", from.version(), ", this reader knows ", kVersion));
  }
  BlobReader reader(bytes.size());
  SubmodelBlob blob;
  absl::StatusOr<std::string> name = reader.ReadName(from.name());
  if (!name.ok()) return Annotate(name.status(), "submodel blob");
  blob.name = *std::move(name);
  NPUBANK_RETURN_IF_ERROR(Annotate(SubmodelReader(reader).ReadParts(from, blob),
                                   absl::StrCat("submodel '", blob.name, "'")));
  NPUBANK_RETURN_IF_ERROR(CheckSubmodel(blob));
  return blob;
}

std::string WriteSubmodelBlob(const SubmodelBlob& blob) {
  flatbuffers::FlatBufferBuilder builder;
  const auto functions = WriteAll(builder, blob.functions, [&](const SubmodelFunction& function) {
    const auto name = builder.CreateString(function.name);
    const auto bytes = WriteBytes(builder, function.blob);
    return fbs::CreateNativeFunction(builder, name, bytes);
  });
  const auto values = WriteAll(builder, blob.values, [&](const SubmodelValue& value) {
    const auto name = builder.CreateString(value.name);
    const auto dims = WriteDims(builder, value.type);
    return fbs::CreateSubmodelValue(builder, name, ElementNumber(value.type), dims,
                                    static_cast<fbs::Placement>(value.placement), value.offset);
  });
  const auto weights = WriteAll(builder, blob.weights, [&](const SubmodelWeight& weight) {
    const auto name = builder.CreateString(weight.name);
    return fbs::CreateWeight(builder, name, static_cast<fbs::WeightPart>(weight.part));
  });
  const auto calls =
      WriteAll(builder, blob.calls, [&](const Call& call) { return WriteCall(builder, call); });
  const auto recipes = WriteBytes(builder, blob.recipes);
  const auto name = builder.CreateString(blob.name);
  builder.Finish(fbs::CreateSubmodel(builder, kVersion, name, blob.chunk, blob.context,
                                     blob.vocabulary, functions, values, weights, recipes, calls,
                                     blob.arena_bytes, blob.scratch_offset, blob.scratch_bytes),
                 fbs::SubmodelIdentifier());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

}  // namespace npubank

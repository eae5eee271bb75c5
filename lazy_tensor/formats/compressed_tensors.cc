#include "npubank/lazy_tensor/formats/compressed_tensors.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using Kind = KnownName::Kind;
using Method = Quantization::Method;

constexpr char kActivations[] =
    "quantised activations are not supported; supported are models whose weights alone are quantised "
    "(W8A16, W4A16)";

constexpr KnownName kKeys[] = {
    {"quant_method", Kind::kUsed},
    {"config_groups", Kind::kUsed},
    {"format", Kind::kUsed},
    {"kv_cache_scheme", Kind::kRefused, "a quantised cache is not supported"},
    {"sparsity_config", Kind::kRefused, "sparse weights are not supported", "[{}]"},
    {"transform_config", Kind::kRefused, "transforms between layers are not supported", "[{}]"},
    {"ignore", Kind::kHarmless},  // stored whole, and found as that
    {"quantization_status", Kind::kHarmless},
    {"global_compression_ratio", Kind::kHarmless},
    {"provider", Kind::kHarmless},
    {"version", Kind::kHarmless},
};
constexpr KnownName kGroupKeys[] = {
    {"targets", Kind::kHarmless},  // which layers: what is stored says so
    {"weights", Kind::kUsed},
    {"format", Kind::kUsed},
    {"input_activations", Kind::kRefused, kActivations},
    {"output_activations", Kind::kRefused, kActivations},
};
constexpr KnownName kWeightsKeys[] = {
    {"num_bits", Kind::kUsed},
    {"strategy", Kind::kUsed},
    {"group_size", Kind::kUsed},
    {"type", Kind::kRefused, "supported is 'int'", R"(["int"])"},
    {"symmetric", Kind::kRefused, "zero points are not supported; quantise with symmetric=true",
     "[true]"},
    {"dynamic", Kind::kRefused, "scales must be stored", "[false]"},
    {"actorder", Kind::kRefused, "groups must be in the order of the inputs; supported are 'weight' and 'static'",
     R"([false, "weight", "static"])"},
    {"block_structure", Kind::kRefused, "scales of blocks are not supported"},
    // How the numbers were found.
    {"observer", Kind::kHarmless},
    {"observer_kwargs", Kind::kHarmless},
    {"scale_dtype", Kind::kHarmless},  // the scales have it
    {"zp_dtype", Kind::kHarmless},
};

void ReadFormat(JsonFields& fields, Quantization& quantization) {
  const std::string format = fields.Text("format", "");
  quantization.method = format == "int-quantized" ? Method::kInt8 : Method::kPackedRows;
  if (format != "int-quantized" && format != "pack-quantized") {
    fields.Fail("format", absl::StrCat("is ", Quote(format),
                                       "; supported are 'int-quantized' and 'pack-quantized'"));
  }
}

void ReadWeights(JsonFields& fields, const Json& weights, Quantization& quantization) {
  fields.Adopt(CheckKeys({kWeightsKeys}, weights, absl::StrCat(fields.file(), ": "),
                         "a weight of compressed-tensors"));
  quantization.bits = static_cast<int>(fields.Int("num_bits", 1, 64));
  const bool packed = quantization.method == Method::kPackedRows;
  if (quantization.bits != 8 && !(packed && quantization.bits == 4)) {
    fields.Fail("num_bits", packed ? "must be 4 or 8" : "must be 8");
  }
  const std::string strategy = fields.Text("strategy", "");
  if (strategy == "group") {
    quantization.group_size = fields.Int("group_size", 1, 1 << 20);
  } else if (strategy != "channel") {
    fields.Fail("strategy", absl::StrCat("is ", Quote(strategy),
                                         "; supported are 'channel' and 'group'"));
  }
}

// The one group of layers, which all that are quantised belong to.
void ReadGroup(JsonFields& fields, const Json& group, const std::string& format,
               Quantization& quantization) {
  fields.Adopt(CheckKeys({kGroupKeys}, group, absl::StrCat(fields.file(), ": "),
                         "a group of compressed-tensors"));
  if (fields.Text("format", format.c_str()) != format) {
    fields.Fail("format", absl::StrCat("is another than ", Quote(format), ", the model's"));
  }
  const Json* const weights = fields.Get("weights");
  if (weights == nullptr || !weights->is_object()) return fields.Fail("weights", "must be an object");
  JsonFields nested(*weights, absl::StrCat(fields.file(), ".weights"));
  ReadWeights(nested, *weights, quantization);
  fields.Adopt(nested.status());
}

// Two numbers that say what a row of words cannot: how many numbers of its last word count.
absl::Status CheckShape(const LazyTensor& tensor, const TensorType& numbers) {
  constexpr size_t kBytes = 16;
  if (tensor.type().element() != ElementType::kI64 || tensor.type().num_elements() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", tensor.type().ToString(), " instead of I64[2]"));
  }
  std::array<std::byte, kBytes> raw = {};
  NPUBANK_RETURN_IF_ERROR(tensor.EvaluateInto(absl::MakeSpan(raw)));
  for (int axis = 0; axis < 2; ++axis) {
    uint64_t stored = 0;
    for (size_t byte = 8; byte-- > 0;) {
      stored = stored << 8 | static_cast<uint64_t>(raw[static_cast<size_t>(axis) * 8 + byte]);
    }
    if (stored == static_cast<uint64_t>(numbers.shape().dim(axis))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("has ", static_cast<int64_t>(stored), " as dimension ", axis, ", but the words hold ",
                     numbers.shape().ToString(), "; rows that are no whole words are not supported"));
  }
  return absl::OkStatus();
}

}  // namespace

void ReadCompressedTensors(JsonFields& fields, const Json& settings, Quantization& quantization) {
  fields.Adopt(CheckKeys({kKeys}, settings, absl::StrCat(fields.file(), ": "), "compressed-tensors"));
  ReadFormat(fields, quantization);
  const Json* const groups = fields.Get("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->size() != 1 ||
      !groups->begin().value().is_object()) {
    return fields.Fail("config_groups", "must be an object with one group of layers");
  }
  const Json& group = groups->begin().value();
  JsonFields nested(group, absl::StrCat(fields.file(), ".config_groups.", Quote(groups->begin().key())));
  ReadGroup(nested, group, fields.Text("format", ""), quantization);
  fields.Adopt(nested.status());
}

absl::StatusOr<StoredWeight> CompressedWeight(const Quantization& quantization,
                                              const std::string& stem, const SourceIndex& index) {
  const bool packed = quantization.method == Method::kPackedRows;
  const std::string name = absl::StrCat(stem, packed ? ".weight_packed" : ".weight");
  const std::string scale_name = stem + ".weight_scale";
  StoredWeight stored = {packed ? WeightForm::Rows(quantization.bits)
                                : WeightForm::Planes(WeightForm::Offset::kNone),
                         {}};
  for (const std::string& part : {name, scale_name}) {
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor tensor, LazyTensor::Stored(index, part));
    stored.parts.push_back(std::move(tensor));
  }
  if (!packed && stored.parts[0].type().element() != ElementType::kI8) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(name), " is ",
                                                   stored.parts[0].type().ToString(),
                                                   " with scales beside it; I8 is needed"));
  }
  const absl::StatusOr<TensorType> numbers = stored.Numbers();
  if (!numbers.ok()) {
    return Annotate(numbers.status(),
                    absl::StrCat("tensor ", Quote(name), " with ", Quote(scale_name)));
  }
  NPUBANK_RETURN_IF_ERROR(CheckGroups(quantization, scale_name, numbers->shape().dim(1),
                                      stored.parts[1].type().shape().dim(1)));
  if (packed) {
    const std::string shape_name = stem + ".weight_shape";
    NPUBANK_ASSIGN_OR_RETURN(const LazyTensor shape, LazyTensor::Stored(index, shape_name));
    NPUBANK_RETURN_IF_ERROR(
        Annotate(CheckShape(shape, *numbers), absl::StrCat("tensor ", Quote(shape_name))));
  }
  return stored;
}

}  // namespace npubank

#include "npubank/lazy_tensor/formats/quantization.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/formats/compressed_tensors.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/json_fields.h"
#include "npubank/lazy_tensor/formats/model/network_names.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

using Kind = KnownName::Kind;

// What the tools of GPTQ and AWQ both write.
constexpr KnownName kCommonKeys[] = {
    {"quant_method", Kind::kUsed},
    {"bits", Kind::kUsed},
    {"group_size", Kind::kUsed},
    {"lm_head", Kind::kHarmless},                 // stored in parts or whole, and found as either
    {"modules_to_not_convert", Kind::kHarmless},  // the same
    {"exllama_config", Kind::kHarmless},
};
constexpr KnownName kGptqKeys[] = {
    {"checkpoint_format", Kind::kUsed},
    {"format", Kind::kUsed},  // the same, as newer programs write it beside
    {"method", Kind::kRefused, "supported is 'gptq'", R"(["gptq"])"},
    {"dynamic", Kind::kUsed},
    {"desc_act", Kind::kHarmless},  // g_idx says which group an input has
    {"sym", Kind::kHarmless},       // the zero points are stored all the same
    {"is_marlin_format", Kind::kRefused, "supported is the format of GPTQ itself", "[false]"},
    {"pack_dtype", Kind::kRefused, "supported is 'int32'", R"(["int32"])"},
    // How the numbers were found, and what is to run them.
    {"act_group_aware", Kind::kHarmless},
    {"backend", Kind::kHarmless},
    {"batch_size", Kind::kHarmless},
    {"block_name_to_quantize", Kind::kHarmless},
    {"cache_block_outputs", Kind::kHarmless},
    {"damp_auto_increment", Kind::kHarmless},
    {"damp_percent", Kind::kHarmless},
    {"dataset", Kind::kHarmless},
    {"disable_exllama", Kind::kHarmless},
    {"hyb_act", Kind::kHarmless},
    {"max_input_length", Kind::kHarmless},
    {"meta", Kind::kHarmless},
    {"model_file_base_name", Kind::kHarmless},
    {"model_name_or_path", Kind::kHarmless},
    {"model_seqlen", Kind::kHarmless},
    {"module_name_preceding_first_block", Kind::kHarmless},
    {"modules_in_block_to_quantize", Kind::kHarmless},
    {"pad_token_id", Kind::kHarmless},
    {"quantizer", Kind::kHarmless},
    {"static_groups", Kind::kHarmless},
    {"tokenizer", Kind::kHarmless},
    {"true_sequential", Kind::kHarmless},
    {"use_cuda_fp16", Kind::kHarmless},
    {"use_exllama", Kind::kHarmless},
};
constexpr KnownName kAwqKeys[] = {
    {"backend", Kind::kRefused, "supported is 'autoawq'", R"(["autoawq", "auto"])"},
    {"version", Kind::kUsed},
    {"zero_point", Kind::kUsed},
    {"do_fuse", Kind::kHarmless},
    {"fuse_max_seq_len", Kind::kHarmless},
    {"modules_to_fuse", Kind::kHarmless},
};

// Whether settings for single modules only say which are not quantised: that shows in what is stored.
bool LeavesOutOnly(const Json& dynamic) {
  if (!dynamic.is_object()) return dynamic.empty();
  for (const auto& [modules, settings] : dynamic.items()) {
    if (!absl::StartsWith(modules, "-:")) return false;
  }
  return true;
}

void ReadGptq(JsonFields& fields, Quantization& quantization) {
  quantization.method = Quantization::Method::kGptq;
  const std::string newer = fields.Text("format", "gptq");
  const std::string format = fields.Text("checkpoint_format", newer.c_str());
  quantization.zeros_one_too_small = format == "gptq";
  if (format != "gptq" && format != "gptq_v2") {
    fields.Fail(fields.Get("checkpoint_format") != nullptr ? "checkpoint_format" : "format",
                absl::StrCat("is ", Quote(format), "; supported are 'gptq' and 'gptq_v2'"));
  } else if (fields.Get("format") != nullptr && newer != format) {
    fields.Fail("format", absl::StrCat("is ", Quote(newer), ", and 'checkpoint_format' ", Quote(format)));
  }
  const Json* dynamic = fields.Get("dynamic");
  if (dynamic != nullptr && !LeavesOutOnly(*dynamic)) {
    fields.Fail("dynamic",
                "has other settings for single modules, which are not supported, than to leave them out (\"-:\")");
  }
}

void ReadAwq(JsonFields& fields, Quantization& quantization) {
  quantization.method = Quantization::Method::kAwq;
  const std::string version = absl::AsciiStrToLower(fields.Text("version", "gemm"));
  if (version != "gemm") {
    fields.Fail("version", absl::StrCat("is ", Quote(version), "; supported is 'gemm'"));
  }
  if (!fields.Bool("zero_point", true)) {
    fields.Fail("zero_point", "is false; supported is true");
  }
}

// What GPTQ and AWQ have in common.
void ReadWords(JsonFields& fields, const Json& settings, absl::Span<const KnownName> keys,
               const std::string& method, Quantization& quantization) {
  fields.Adopt(CheckKeys({kCommonKeys, keys}, settings, absl::StrCat(fields.file(), ": "), method));
  quantization.bits = static_cast<int>(fields.Int("bits", 1, 64));
  const bool eight = quantization.bits == 8 && quantization.method == Quantization::Method::kGptq;
  if (quantization.bits != 4 && !eight) {
    fields.Fail("bits", absl::StrCat("is ", quantization.bits, "; supported are 4, and 8 of GPTQ"));
  }
  quantization.group_size = fields.Int("group_size", Quantization::kWholeColumn, 1 << 20);
  if (quantization.group_size == 0) fields.Fail("group_size", "must not be 0");
}

// Visits the group of each input in order; the error that `visit` returns ends it.
absl::Status ForEachGroup(const LazyTensor& tensor, absl::FunctionRef<absl::Status(int64_t k, int32_t group)> visit) {
  NPUBANK_ASSIGN_OR_RETURN(const RecipePtr g_idx, tensor.MakeRecipe());
  constexpr int64_t kChunk = 16 * 1024;
  const int64_t inputs = tensor.type().num_elements();
  std::vector<std::byte> raw(4 * std::min(kChunk, inputs));
  for (int64_t first = 0; first < inputs; first += kChunk) {
    const int64_t count = std::min(kChunk, inputs - first);
    NPUBANK_RETURN_IF_ERROR(EvaluateRange(*g_idx, 4 * first, absl::MakeSpan(raw.data(), 4 * count), {}));
    for (int64_t i = 0; i < count; ++i) {
      int32_t group = 0;
      std::memcpy(&group, raw.data() + 4 * i, sizeof(group));
      NPUBANK_RETURN_IF_ERROR(visit(first + i, group));
    }
  }
  return absl::OkStatus();
}

// Whether the groups are other than k / (inputs / groups); an error where they are not that many of equal sizes.
absl::StatusOr<bool> GroupsListed(const LazyTensor& tensor, int64_t inputs, int64_t groups) {
  const TensorType& type = tensor.type();
  if (type.element() != ElementType::kI32 || type.shape().rank() != 1 || type.num_elements() != inputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", type.ToString(), " instead of I32[", inputs, "]"));
  }
  const int64_t size = inputs / groups;
  bool listed = false;
  std::vector<int64_t> sizes(groups);
  NPUBANK_RETURN_IF_ERROR(ForEachGroup(tensor, [&](int64_t k, int32_t group) -> absl::Status {
    if (group < 0 || group >= groups) {
      return absl::InvalidArgumentError(
          absl::StrCat("puts input ", k, " into group ", group, " of ", groups));
    }
    listed |= group != k / size;
    if (++sizes[group] <= size) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("puts more than ", size, " inputs into group ", group, ": input ", k));
  }));
  return listed;
}

}  // namespace

absl::StatusOr<std::optional<Quantization>> ParseQuantization(absl::string_view json,
                                                              const std::string& file) {
  NPUBANK_ASSIGN_OR_RETURN(const Json root, ParseJson(json, file));
  const auto at = root.find("quantization_config");
  if (at == root.end() || at->is_null()) return std::optional<Quantization>();
  if (!at->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": 'quantization_config' must be an object"));
  }
  JsonFields fields(*at, absl::StrCat(file, ": quantization_config"));
  Quantization quantization;
  const std::string method = fields.Text("quant_method", "");
  if (method == "gptq") {
    ReadGptq(fields, quantization);
    ReadWords(fields, *at, kGptqKeys, method, quantization);
  } else if (method == "awq") {
    ReadAwq(fields, quantization);
    ReadWords(fields, *at, kAwqKeys, method, quantization);
  } else if (method == "compressed-tensors") {
    ReadCompressedTensors(fields, *at, quantization);
  } else {
    fields.Fail("quant_method", absl::StrCat("is ", Quote(method),
                                             "; supported are 'gptq', 'awq' and 'compressed-tensors'"));
  }
  NPUBANK_RETURN_IF_ERROR(fields.status());
  return std::optional<Quantization>(quantization);
}

absl::StatusOr<std::optional<Quantization>> ReadQuantization(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigJsonBytes));
  return ParseQuantization(text, path);
}

std::string WeightOfPart(const Quantization& quantization, absl::string_view name) {
  const auto parts = [&]() -> std::vector<const char*> {
    switch (quantization.method) {
      case Quantization::Method::kGptq:
        return {".qweight", ".qzeros", ".scales", ".g_idx"};
      case Quantization::Method::kAwq:
        return {".qweight", ".qzeros", ".scales"};
      case Quantization::Method::kInt8:
        return {".weight_scale"};
      case Quantization::Method::kPackedRows:
        return {".weight_packed", ".weight_scale", ".weight_shape"};
    }
    return {};
  };
  absl::string_view stem = name;
  for (const char* part : parts()) {
    if (absl::ConsumeSuffix(&stem, part)) return absl::StrCat(stem, ".weight");
  }
  return std::string(name);
}

absl::Status CheckGroups(const Quantization& quantization, const std::string& name, int64_t inputs,
                         int64_t groups) {
  const bool whole = quantization.group_size == Quantization::kWholeColumn;
  const int64_t group = whole ? inputs : quantization.group_size;
  if (inputs % group == 0 && inputs / group == groups) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", Quote(name), " has ", groups, " scales for an output; ", inputs, " inputs are ",
      inputs % group != 0 ? absl::StrCat("not whole groups of ", group)
                          : absl::StrCat(inputs / group, " groups of ", group)));
}

absl::StatusOr<StoredWeight> QuantizedWeight(const Quantization& quantization,
                                             const std::string& stem, const SourceIndex& index) {
  if (quantization.method >= Quantization::Method::kInt8) {
    return CompressedWeight(quantization, stem, index);
  }
  const bool gptq = quantization.method == Quantization::Method::kGptq;
  const auto form = [&](bool listed) {
    return gptq ? WeightForm::Gptq(quantization.zeros_one_too_small, quantization.bits, listed)
                : WeightForm::Awq();
  };
  StoredWeight stored = {form(/*listed=*/false), {}};
  for (const char* part : {".qweight", ".scales", ".qzeros"}) {
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor tensor, LazyTensor::Stored(index, stem + part));
    stored.parts.push_back(std::move(tensor));
  }
  const absl::StatusOr<TensorType> numbers = stored.Numbers();
  if (!numbers.ok()) {
    return Annotate(numbers.status(),
                    absl::StrCat("tensor ", Quote(stem + ".qweight"), " with ",
                                 Quote(stem + ".scales"), " and ", Quote(stem + ".qzeros")));
  }
  const int64_t inputs = numbers->shape().dim(0);
  NPUBANK_RETURN_IF_ERROR(CheckGroups(quantization, stem + ".scales", inputs,
                                      stored.parts[1].type().shape().dim(0)));
  if (gptq) {
    const std::string name = stem + ".g_idx";
    NPUBANK_ASSIGN_OR_RETURN(const LazyTensor g_idx, LazyTensor::Stored(index, name));
    const int64_t groups = stored.parts[1].type().shape().dim(0);
    const absl::StatusOr<bool> listed = GroupsListed(g_idx, inputs, groups);
    if (!listed.ok()) return Annotate(listed.status(), absl::StrCat("tensor ", Quote(name)));
    stored.form = form(*listed);
    if (*listed) stored.parts.push_back(g_idx);
  }
  return stored;
}

}  // namespace npubank

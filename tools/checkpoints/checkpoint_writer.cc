#include "npubank/tools/checkpoints/checkpoint_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/tools/checkpoints/container_headers.h"
#include "npubank/tools/checkpoints/made_up_network.h"
#include "npubank/tools/checkpoints/made_up_numbers.h"
#include "npubank/tools/checkpoints/stored_layout.h"

namespace npubank {
namespace {

// Keeps the key order, as readers of config.json expect to see it.
using Json = nlohmann::ordered_json;
using Content = LaidOutTensor::Content;

constexpr size_t kHubAlignment = 8;
constexpr size_t kPaddedAlignment = 64;

// What llm-compressor writes of weights that alone are quantised.
Json CompressedTensors(const CheckpointShape& shape) {
  const bool groups = shape.format == CheckpointFormat::kPackInt4 && GroupSize(shape).has_value();
  Json weights = {{"actorder", nullptr},
                  {"block_structure", nullptr},
                  {"dynamic", false},
                  {"group_size", nullptr},
                  {"num_bits", shape.format == CheckpointFormat::kPackInt4 ? 4 : 8},
                  {"observer", "minmax"},
                  {"observer_kwargs", Json::object()},
                  {"strategy", groups ? "group" : "channel"},
                  {"symmetric", true},
                  {"type", "int"}};
  if (groups) weights["group_size"] = *GroupSize(shape);
  const Json group = {{"input_activations", nullptr},
                      {"output_activations", nullptr},
                      {"targets", {"Linear"}},
                      {"weights", weights}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", shape.format == CheckpointFormat::kInt8 ? "int-quantized" : "pack-quantized"},
          {"ignore", {"lm_head"}},
          {"kv_cache_scheme", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

std::string MakeConfig(const CheckpointShape& shape) {
  const bool safetensors = shape.format == CheckpointFormat::kSafetensors;
  const ElementType element = safetensors                    ? shape.element
                              : IsCompressed(shape.format) ? ElementType::kBF16
                                                           : ElementType::kF16;
  const char* dtype = element == ElementType::kBF16  ? "bfloat16"
                      : element == ElementType::kF16 ? "float16"
                                                     : "float32";
  Json config = MadeUpNetwork(shape).Config();
  config["torch_dtype"] = dtype;
  const int64_t group = GroupSize(shape).value_or(-1);
  if (IsGptq(shape.format)) {
    config["quantization_config"] = {{"quant_method", "gptq"},
                                     {"bits", shape.format == CheckpointFormat::kGptq8 ? 8 : 4},
                                     {"group_size", group},
                                     {"desc_act", shape.format == CheckpointFormat::kGptqActOrder},
                                     {"sym", true},
                                     {"checkpoint_format", "gptq"}};
  } else if (shape.format == CheckpointFormat::kAwq) {
    config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", group},
                                     {"zero_point", true},    {"version", "gemm"}};
  } else if (IsCompressed(shape.format)) {
    config["quantization_config"] = CompressedTensors(shape);
  }
  return config.dump(2) + "\n";
}

// Writes tensors' bytes, a chunk at a time.
class TensorWriter {
 public:
  TensorWriter(const CheckpointShape& shape, AtomicFile& file) : shape_(shape), file_(file) {}

  absl::Status Write(const LaidOutTensor& tensor, uint64_t number) {
    const MadeUpNumbers numbers(shape_.seed, number);
    const bool blocks = tensor.blocks.has_value();
    const auto all = static_cast<uint64_t>(tensor.type.num_elements());
    const uint64_t units = blocks ? all / kernels::BlockLength(*tensor.blocks) : all;
    const uint64_t unit_bytes = units == 0 ? 1 : tensor.bytes() / units;
    const uint64_t chunk = kChunkBytes / unit_bytes;
    for (uint64_t first = 0; first < units; first += chunk) {
      const uint64_t count = std::min(chunk, units - first);
      Fill(tensor, numbers, first, count);
      NPUBANK_RETURN_IF_ERROR(file_.Append(absl::string_view(
          reinterpret_cast<const char*>(bytes_.data()), count * unit_bytes)));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kChunkBytes = 128 * 1024;

  // Elements, or blocks, [first, first + count) into bytes_.
  void Fill(const LaidOutTensor& tensor, const MadeUpNumbers& numbers, uint64_t first,
            uint64_t count) {
    auto* const words = reinterpret_cast<uint32_t*>(bytes_.data());
    switch (tensor.content) {
      case Content::kNearZero:
      case Content::kNearOne:
        numbers.Floats(first, tensor.content == Content::kNearOne ? 1 : 0,
                       absl::MakeSpan(floats_.data(), count));
        return Convert(tensor, count);
      case Content::kScales:
        numbers.Scales(first, tensor.levels, absl::MakeSpan(floats_.data(), count));
        return Convert(tensor, count);
      case Content::kWords:
        return numbers.Words(first, absl::MakeSpan(words, count));
      case Content::kBytes:
        return numbers.Words(first / 4, absl::MakeSpan(words, (count + 3) / 4));
      case Content::kShape:
        std::memcpy(bytes_.data(), tensor.dims.data(), count * sizeof(int64_t));
        return;
      case Content::kZeroPoints:  // the middle, 8 or 128; GPTQ stores them one too small
        std::fill_n(words, count,
                    shape_.format == CheckpointFormat::kGptq8 ? 0x7F7F7F7F
                    : IsGptq(shape_.format)                   ? 0x77777777
                                                              : 0x88888888);
        return;
      case Content::kGroups:
        for (uint64_t i = 0; i < count; ++i) words[i] = GroupOf(tensor, first + i);
        return;
      case Content::kDivisors:
        for (uint64_t i = 0; i < count; ++i) {
          floats_[i] = 1 + static_cast<float>(first + i) / 16;
        }
        return Convert(tensor, count);
      case Content::kBlocks:
        return numbers.Blocks(*tensor.blocks, first, count, bytes_.data());
    }
  }

  // In activation order the inputs are dealt out to the groups as by a shuffle: a step through all of them.
  uint32_t GroupOf(const LaidOutTensor& tensor, uint64_t input) const {
    const auto inputs = static_cast<uint64_t>(tensor.type.num_elements());
    if (shape_.format == CheckpointFormat::kGptqActOrder) {
      const uint64_t step = inputs % 7919 != 0 ? 7919 : 7907;  // primes
      input = (input * step + inputs / 3) % inputs;
    }
    return static_cast<uint32_t>(input / static_cast<uint64_t>(tensor.group_size));
  }

  void Convert(const LaidOutTensor& tensor, uint64_t count) {
    kernels::Convert(ElementType::kF32, floats_.data(), tensor.type.element(), bytes_.data(), count);
  }

  const CheckpointShape& shape_;
  AtomicFile& file_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kChunkBytes);
  std::vector<float> floats_ = std::vector<float>(kChunkBytes / 2);  // as many as F16 in a chunk
};

// Tensors [first, first + tensors.size()) of the model into one file.
absl::Status WriteWeights(const CheckpointShape& shape, absl::Span<const LaidOutTensor> tensors,
                          uint64_t first, const std::string& path) {
  const bool gguf = IsGguf(shape.format);
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(
      gguf ? GgufHeader(shape, tensors)
           : SafetensorsHeader(tensors, shape.padded ? kPaddedAlignment : kHubAlignment)));
  TensorWriter writer(shape, file);
  for (size_t i = 0; i < tensors.size(); ++i) {
    NPUBANK_RETURN_IF_ERROR(writer.Write(tensors[i], first + i));
    if (gguf) {
      NPUBANK_RETURN_IF_ERROR(file.Append(std::string(GgufPadding(tensors[i].bytes()), '\0')));
    }
  }
  return file.Commit();
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

// Several files of about as many bytes, and the index that says which tensor is where.
absl::Status WriteShards(const CheckpointShape& shape, const std::vector<LaidOutTensor>& tensors,
                         const std::string& folder) {
  uint64_t total = 0;
  for (const LaidOutTensor& tensor : tensors) total += tensor.bytes();
  Json map = Json::object();
  size_t first = 0;
  uint64_t written = 0;
  for (int64_t shard = 1; shard <= shape.shards; ++shard) {
    const std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", shard, shape.shards);
    const uint64_t until = total / static_cast<uint64_t>(shape.shards) * static_cast<uint64_t>(shard);
    size_t end = first;
    while (end < tensors.size() && (written < until || shard == shape.shards)) {
      written += tensors[end].bytes();
      map[tensors[end++].name] = name;
    }
    NPUBANK_RETURN_IF_ERROR(WriteWeights(shape, absl::MakeConstSpan(tensors).subspan(first, end - first),
                                         first, folder + "/" + name));
    first = end;
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  return WriteText(index.dump(2) + "\n", folder + "/model.safetensors.index.json");
}

}  // namespace

std::optional<CheckpointFormat> CheckpointFormatFromName(absl::string_view name) {
  if (name == "safetensors") return CheckpointFormat::kSafetensors;
  if (name == "gptq") return CheckpointFormat::kGptq;
  if (name == "gptq-act-order") return CheckpointFormat::kGptqActOrder;
  if (name == "gptq-8bit") return CheckpointFormat::kGptq8;
  if (name == "awq") return CheckpointFormat::kAwq;
  if (name == "int8") return CheckpointFormat::kInt8;
  if (name == "pack-int8") return CheckpointFormat::kPackInt8;
  if (name == "pack-int4") return CheckpointFormat::kPackInt4;
  if (name == "gguf-q4_0") return CheckpointFormat::kGgufQ4_0;
  if (name == "gguf-q4_k") return CheckpointFormat::kGgufQ4_K;
  if (name == "gguf-q6_k") return CheckpointFormat::kGgufQ6_K;
  if (name == "gguf-q8_0") return CheckpointFormat::kGgufQ8_0;
  if (name == "gguf-f32") return CheckpointFormat::kGgufF32;
  return std::nullopt;
}

std::optional<CheckpointNetwork> CheckpointNetworkFromName(absl::string_view name) {
  if (name == "llama") return CheckpointNetwork::kLlama;
  if (name == "mistral") return CheckpointNetwork::kMistral;
  if (name == "qwen2") return CheckpointNetwork::kQwen2;
  if (name == "qwen3") return CheckpointNetwork::kQwen3;
  if (name == "phi3") return CheckpointNetwork::kPhi3;
  return std::nullopt;
}

absl::StatusOr<std::string> WriteCheckpoint(const CheckpointShape& shape, const std::string& folder) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<LaidOutTensor> tensors, StoredLayout(shape));
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make folder '", folder, "'"));
  }
  if (IsGguf(shape.format)) {
    const std::string path = folder + "/model.gguf";
    NPUBANK_RETURN_IF_ERROR(WriteWeights(shape, tensors, 0, path));
    return path;
  }
  if (shape.shards > 1) {
    NPUBANK_RETURN_IF_ERROR(WriteShards(shape, tensors, folder));
  } else {
    NPUBANK_RETURN_IF_ERROR(WriteWeights(shape, tensors, 0, folder + "/model.safetensors"));
  }
  NPUBANK_RETURN_IF_ERROR(WriteText(MakeConfig(shape), folder + "/config.json"));
  return folder;
}

absl::StatusOr<int64_t> CountParameters(const CheckpointShape& shape) {
  CheckpointShape plain = shape;  // the same numbers, whichever way they are stored
  plain.format = CheckpointFormat::kSafetensors;
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<LaidOutTensor> tensors, StoredLayout(plain));
  int64_t count = 0;
  for (const LaidOutTensor& tensor : tensors) count += tensor.type.num_elements();
  return count;
}

}  // namespace npubank

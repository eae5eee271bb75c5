#include "npubank/tools/checkpoint_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/atomic_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/model_config.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {
namespace {

// Keeps the key order, as readers of config.json expect to see it.
using Json = nlohmann::ordered_json;

struct Tensor {
  std::string name;
  TensorType type;
  bool norm = false;  // numbers near 1 rather than near 0
};

absl::Status CheckShape(const CheckpointShape& shape) {
  auto bounded = [](int64_t value, int64_t max) { return value >= 1 && value <= max; };
  const bool fits =
      bounded(shape.layers, ModelConfig::kMaxLayers) &&
      bounded(shape.hidden, ModelConfig::kMaxDim) && bounded(shape.heads, ModelConfig::kMaxDim) &&
      bounded(shape.kv_heads, shape.heads) && bounded(shape.intermediate, ModelConfig::kMaxDim) &&
      bounded(shape.vocab, ModelConfig::kMaxVocab) && shape.vocab >= 3 &&
      bounded(shape.context, ModelConfig::kMaxContext);
  if (!fits) return absl::InvalidArgumentError("a dimension of the checkpoint is out of range");
  if (shape.hidden % shape.heads != 0 || shape.hidden / shape.heads % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden ", shape.hidden, " must be an even multiple of heads ", shape.heads));
  }
  if (shape.heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv heads ", shape.kv_heads, " must divide heads ", shape.heads));
  }
  if (shape.element != ElementType::kBF16 && shape.element != ElementType::kF16 &&
      shape.element != ElementType::kF32) {
    return absl::InvalidArgumentError("the element type must be BF16, F16 or F32");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ListTensors(const CheckpointShape& shape) {
  NPUBANK_RETURN_IF_ERROR(CheckShape(shape));
  std::vector<Tensor> tensors;
  absl::Status status;
  auto add = [&](std::string name, std::vector<int64_t> dims) {
    absl::StatusOr<Shape> checked = Shape::Create(dims);
    absl::StatusOr<TensorType> type =
        checked.ok() ? TensorType::Create(shape.element, *checked) : checked.status();
    status.Update(type.status());
    if (type.ok()) tensors.push_back({std::move(name), *type, dims.size() == 1});
  };
  const int64_t kv = shape.hidden / shape.heads * shape.kv_heads;
  add("model.embed_tokens.weight", {shape.vocab, shape.hidden});
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    add(prefix + "input_layernorm.weight", {shape.hidden});
    add(prefix + "self_attn.q_proj.weight", {shape.hidden, shape.hidden});
    add(prefix + "self_attn.k_proj.weight", {kv, shape.hidden});
    add(prefix + "self_attn.v_proj.weight", {kv, shape.hidden});
    add(prefix + "self_attn.o_proj.weight", {shape.hidden, shape.hidden});
    add(prefix + "post_attention_layernorm.weight", {shape.hidden});
    add(prefix + "mlp.gate_proj.weight", {shape.intermediate, shape.hidden});
    add(prefix + "mlp.up_proj.weight", {shape.intermediate, shape.hidden});
    add(prefix + "mlp.down_proj.weight", {shape.hidden, shape.intermediate});
  }
  add("model.norm.weight", {shape.hidden});
  if (!shape.tied) add("lm_head.weight", {shape.vocab, shape.hidden});
  NPUBANK_RETURN_IF_ERROR(status);
  return tensors;
}

// The safetensors header with its length in front, padded with spaces to a whole number of cache
// lines.
std::string MakeHeader(const std::vector<Tensor>& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const absl::Span<const int64_t> dims = tensor.type.shape().dims();
    const absl::string_view dtype = ElementTypeName(tensor.type.element());
    header[tensor.name] = {{"dtype", std::string(dtype)},
                           {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                           {"data_offsets", {offset, offset + tensor.type.bytes()}}};
    offset += tensor.type.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i));
  return length + text;
}

std::string MakeConfig(const CheckpointShape& shape) {
  const char* dtype = shape.element == ElementType::kBF16  ? "bfloat16"
                      : shape.element == ElementType::kF16 ? "float16"
                                                           : "float32";
  const Json config = {{"architectures", {"LlamaForCausalLM"}},
                       {"model_type", "llama"},
                       {"vocab_size", shape.vocab},
                       {"hidden_size", shape.hidden},
                       {"intermediate_size", shape.intermediate},
                       {"num_hidden_layers", shape.layers},
                       {"num_attention_heads", shape.heads},
                       {"num_key_value_heads", shape.kv_heads},
                       {"head_dim", shape.hidden / shape.heads},
                       {"max_position_embeddings", shape.context},
                       {"rope_theta", 10000.0},
                       {"rms_norm_eps", 1e-5},
                       {"hidden_act", "silu"},
                       {"attention_bias", false},
                       {"mlp_bias", false},
                       {"tie_word_embeddings", shape.tied},
                       {"bos_token_id", 1},
                       {"eos_token_id", 2},
                       {"torch_dtype", dtype}};
  return config.dump(2) + "\n";
}

// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection that mixes all bits.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Numbers [first, first + out.size()) of the stream: near normal (the sum of four uniform numbers)
// with deviation 0.02. Integers up to the one product, so that every machine makes the same float.
void Fill(uint64_t stream, uint64_t first, bool norm, absl::Span<float> out) {
  constexpr float kScale =
      0.02f * 1.7320508f / 65536.0f;  // the sum deviates by sqrt(4 / 12) x 65536
  const int32_t mean = norm ? static_cast<int32_t>(1 / kScale) : 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = Mix(stream + (first + i));
    const auto sum = static_cast<int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                          (bits >> 32 & 0xFFFF) + (bits >> 48));
    out[i] = static_cast<float>(sum - 2 * 65535 + mean) * kScale;
  }
}

absl::Status WriteTensor(const Tensor& tensor, uint64_t stream, AtomicFile& file) {
  constexpr int64_t kChunk = 32 * 1024;
  const ElementType element = tensor.type.element();
  std::vector<float> numbers(kChunk);
  std::vector<std::byte> bytes(kChunk * 4);
  for (int64_t first = 0; first < tensor.type.num_elements(); first += kChunk) {
    const auto count = static_cast<size_t>(std::min(kChunk, tensor.type.num_elements() - first));
    Fill(stream, static_cast<uint64_t>(first), tensor.norm, absl::MakeSpan(numbers.data(), count));
    kernels::Convert(ElementType::kF32, numbers.data(), element, bytes.data(), count);
    NPUBANK_RETURN_IF_ERROR(file.Append(absl::string_view(
        reinterpret_cast<const char*>(bytes.data()), count * BitWidth(element) / 8)));
  }
  return absl::OkStatus();
}

absl::Status WriteWeights(const CheckpointShape& shape, const std::vector<Tensor>& tensors,
                          const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(MakeHeader(tensors)));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t stream = Mix(Mix(shape.seed) + i);
    NPUBANK_RETURN_IF_ERROR(WriteTensor(tensors[i], stream, file));
  }
  return file.Commit();
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

}  // namespace

absl::Status WriteCheckpoint(const CheckpointShape& shape, const std::string& folder) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, ListTensors(shape));
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make folder '", folder, "'"));
  }
  NPUBANK_RETURN_IF_ERROR(WriteWeights(shape, tensors, folder + "/model.safetensors"));
  return WriteText(MakeConfig(shape), folder + "/config.json");
}

absl::StatusOr<int64_t> CountParameters(const CheckpointShape& shape) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, ListTensors(shape));
  int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.type.num_elements();
  return count;
}

}  // namespace npubank

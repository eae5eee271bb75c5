#include "npubank/tools/benchmarks/fake_model.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

class NoBytesSource : public Source {
 public:
  explicit NoBytesSource(uint64_t number)
      : Source("fake model", Digest{1, number}, uint64_t{1} << 50) {}
  bool persistent() const override { return true; }
  absl::Status Read(uint64_t, absl::Span<std::byte>) const override {
    return absl::InternalError("the compiler read a weight");
  }
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override {
    return absl::InternalError("the compiler viewed a weight");
  }
  void Release(uint64_t, uint64_t) const override {}
};

ModelConfig MakeConfig(int64_t vocab, int64_t hidden, int64_t inner, int64_t layers, int64_t heads,
                       int64_t kv_heads, int64_t context) {
  ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = vocab;
  config.hidden_size = hidden;
  config.intermediate_size = inner;
  config.num_layers = layers;
  config.num_heads = heads;
  config.num_kv_heads = kv_heads;
  config.head_dim = hidden / heads;
  config.context_length = context;
  config.tied_embeddings = true;
  for (int64_t i = 0; i < config.head_dim / 2; ++i) {
    config.rope_frequencies.push_back(static_cast<float>(
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim))));
  }
  return config;
}

}  // namespace

ModelConfig SmallConfig(int64_t layers) { return MakeConfig(96, 24, 44, layers, 4, 2, 64); }
ModelConfig Llama1BConfig() { return MakeConfig(128256, 2048, 8192, 16, 32, 8, 131072); }
ModelConfig Llama7BConfig() { return MakeConfig(32000, 4096, 11008, 32, 32, 32, 4096); }

FakeModel::FakeModel(const ModelConfig& config, ElementType element) {
  static uint64_t count = 0;
  source_ = std::make_shared<NoBytesSource>(++count);
  const int64_t hidden = config.hidden_size;
  const int64_t query = config.num_heads * config.head_dim;
  const int64_t width = config.num_kv_heads * config.head_dim;
  const int64_t inner = config.intermediate_size;
  Set("model.embed_tokens.weight", element, {config.vocab_size, hidden});
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    Set(layer + "input_layernorm.weight", element, {hidden});
    Set(layer + "self_attn.q_proj.weight", element, {query, hidden});
    Set(layer + "self_attn.k_proj.weight", element, {width, hidden});
    Set(layer + "self_attn.v_proj.weight", element, {width, hidden});
    Set(layer + "self_attn.o_proj.weight", element, {hidden, query});
    Set(layer + "post_attention_layernorm.weight", element, {hidden});
    Set(layer + "mlp.gate_proj.weight", element, {inner, hidden});
    Set(layer + "mlp.up_proj.weight", element, {inner, hidden});
    Set(layer + "mlp.down_proj.weight", element, {hidden, inner});
  }
  Set("model.norm.weight", element, {hidden});
  if (!config.tied_embeddings) Set("lm_head.weight", element, {config.vocab_size, hidden});
}

void FakeModel::Set(const std::string& name, ElementType element, std::vector<int64_t> dims) {
  const TensorType type = *TensorType::Create(element, *Shape::Create(dims));
  tensors_[name] = {name, type, 0, end_};
  end_ += type.bytes();
}

LazyTensor FakeModel::Tensor(const std::string& name) const {
  const StoredTensor& tensor = tensors_.at(name);
  return LazyTensor::Constant(source_, tensor.offset, tensor.type, name).value();
}

std::shared_ptr<const Checkpoint> FakeModel::Over(const ModelConfig& config) const {
  auto index = std::make_shared<SourceIndex>("the fake model");
  absl::Status status = index->AddFile(SourceOpener::Held(source_)).status();
  for (const auto& [name, tensor] : tensors_) status.Update(index->Add(tensor));
  if (!status.ok()) std::abort();
  return Checkpoint::Over(config, std::move(index));
}

}  // namespace npubank

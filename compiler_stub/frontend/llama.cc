#include "npubank/compiler_stub/frontend/llama.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/compiler_stub/frontend/weights.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

class LlamaBuilder {
 public:
  LlamaBuilder(const Checkpoint& model, const CompileOptions& options)
      : config_(model.config()), options_(options), weights_(model, options) {}

  absl::StatusOr<Graph> Build() {
    const uint32_t tokens = graph_.AddInput("tokens", Type(ElementType::kI32, {options_.chunk}));
    span_ = graph_.AddInput("span", Type(ElementType::kI32, {2}));
    const int64_t hidden_size = config_.hidden_size;
    const Operands table =
        Weight("model.embed_tokens.weight",
               weights_.Table("model.embed_tokens.weight", config_.vocab_size, hidden_size,
                              config_.tied_embeddings));
    if (!status_.ok()) return status_;
    OpAttributes attributes;
    attributes.form = table.form;
    uint32_t hidden =
        Op(OpKind::kEmbed, "embed", Over(tokens, table), Rows(hidden_size), attributes);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      layer_ = absl::StrCat("layers.", layer, ".");
      hidden = Attention(hidden);
      hidden = FeedForward(hidden);
      if (!status_.ok()) return status_;
    }
    layer_.clear();
    Head(hidden, table);
    if (!status_.ok()) return status_;
    return std::move(graph_);
  }

 private:
  // A weight's values in the graph.
  struct Operands {
    WeightForm form;
    bool transposed = false;
    std::vector<uint32_t> values;
  };

  uint32_t Attention(uint32_t hidden) {
    const int64_t head_dim = config_.head_dim;
    const int64_t query = config_.num_heads * head_dim;
    const int64_t width = config_.num_kv_heads * head_dim;
    const uint32_t x = Norm("attention_norm", "input_layernorm", hidden, options_.chunk);
    // Keys and values first: they move into the cache before the queries need room.
    uint32_t k = MatMul("k", "self_attn.k_proj", x, config_.hidden_size, width);
    k = Rope("k_rope", k, width);
    const uint32_t keys = CacheWrite("key_cache", k, width);
    const uint32_t v = MatMul("v", "self_attn.v_proj", x, config_.hidden_size, width);
    const uint32_t values = CacheWrite("value_cache", v, width);
    uint32_t q = MatMul("q", "self_attn.q_proj", x, config_.hidden_size, query);
    q = Rope("q_rope", q, query);
    const uint32_t mixed = Heads(q, keys, values);
    const uint32_t out = MatMul("o", "self_attn.o_proj", mixed, query, config_.hidden_size);
    return Op(OpKind::kAdd, "attention_add", {hidden, out}, Rows(config_.hidden_size));
  }

  // Scores, softmax and mix over all heads at once, or head after head into one result.
  uint32_t Heads(uint32_t q, uint32_t keys, uint32_t values) {
    const bool whole = options_.attention == AttentionForm::kWhole;
    const int64_t step = whole ? config_.num_heads : 1;
    const TensorType scores_type =
        Type(ElementType::kF32, {step, options_.chunk, options_.context});
    const TensorType mixed_type = Rows(config_.num_heads * config_.head_dim);
    uint32_t mixed = 0;
    for (int64_t head = 0; head < config_.num_heads; head += step) {
      const std::string suffix = whole ? "" : absl::StrCat(".", head);
      OpAttributes attributes;
      attributes.head_dim = config_.head_dim;
      attributes.heads = step;
      attributes.first_head = head;
      attributes.heads_per_kv_head = config_.num_heads / config_.num_kv_heads;
      attributes.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
      uint32_t scores = Op(OpKind::kAttentionScores, absl::StrCat("scores", suffix),
                           {q, keys, span_}, scores_type, attributes);
      scores = Op(OpKind::kSoftmax, absl::StrCat("softmax", suffix), {scores, span_}, scores_type);
      std::vector<uint32_t> inputs = {scores, values, span_};
      if (head > 0) inputs.push_back(mixed);
      attributes.scale = 1;
      mixed = Op(OpKind::kAttentionMix, absl::StrCat("mix", suffix), std::move(inputs), mixed_type,
                 attributes);
    }
    return mixed;
  }

  uint32_t FeedForward(uint32_t hidden) {
    const int64_t inner = config_.intermediate_size;
    const uint32_t x = Norm("mlp_norm", "post_attention_layernorm", hidden, options_.chunk);
    const uint32_t gate = MatMul("gate", "mlp.gate_proj", x, config_.hidden_size, inner);
    const uint32_t up = MatMul("up", "mlp.up_proj", x, config_.hidden_size, inner);
    const uint32_t product = Op(OpKind::kSiluMul, "silu_mul", {gate, up}, Rows(inner));
    const uint32_t down = MatMul("down", "mlp.down_proj", product, inner, config_.hidden_size);
    return Op(OpKind::kAdd, "mlp_add", {hidden, down}, Rows(config_.hidden_size));
  }

  void Head(uint32_t hidden, const Operands& table) {
    const int64_t vocabulary = config_.vocab_size;
    const TensorType row = Type(ElementType::kF32, {1, config_.hidden_size});
    const uint32_t last = Op(OpKind::kSelectLast, "select_last", {hidden, span_}, row);
    const uint32_t x = Norm("final_norm", "model.norm", last, 1);
    // A tied head is the embedding table itself, [V, D], so that the bank holds it once.
    const Operands head =
        config_.tied_embeddings
            ? table
            : Weight("lm_head.weight",
                     weights_.Matrix("lm_head.weight", vocabulary, config_.hidden_size));
    if (!status_.ok()) return;
    graph_.AddOutput(MatMul("logits", x, head, Type(ElementType::kF32, {1, vocabulary})));
  }

  uint32_t Norm(absl::string_view name, absl::string_view tensor, uint32_t x, int64_t rows) {
    const std::string weight_name = TensorName(tensor);
    const Operands weight = Weight(weight_name, weights_.Norm(weight_name, config_.hidden_size));
    OpAttributes attributes;
    attributes.epsilon = static_cast<float>(config_.rms_norm_eps);
    return Op(OpKind::kRmsNorm, name, Over(x, weight),
              Type(ElementType::kF32, {rows, config_.hidden_size}), attributes);
  }

  uint32_t MatMul(absl::string_view name, absl::string_view tensor, uint32_t x, int64_t in,
                  int64_t out) {
    const std::string weight_name = TensorName(tensor);
    return MatMul(name, x, Weight(weight_name, weights_.Matrix(weight_name, out, in)), Rows(out));
  }

  uint32_t MatMul(absl::string_view name, uint32_t x, const Operands& weight, TensorType type) {
    OpAttributes attributes;
    attributes.transposed = weight.transposed;
    attributes.form = weight.form;
    return Op(OpKind::kMatMul, name, Over(x, weight), std::move(type), attributes);
  }

  uint32_t Rope(absl::string_view name, uint32_t x, int64_t columns) {
    OpAttributes attributes;
    attributes.frequencies = config_.rope_frequencies;
    attributes.interleaved = config_.rope_interleaved;
    attributes.head_dim = config_.head_dim;
    return Op(OpKind::kRope, name, {x, span_}, Rows(columns), attributes);
  }

  uint32_t CacheWrite(absl::string_view cache, uint32_t rows, int64_t width) {
    const TensorType type = Type(ElementType::kF32, {options_.context, width});
    const uint32_t state = graph_.AddState(absl::StrCat(layer_, cache), type);
    return Op(OpKind::kCacheWrite, absl::StrCat(cache, "_write"), {rows, state, span_}, type);
  }

  uint32_t Op(OpKind kind, absl::string_view name, std::vector<uint32_t> inputs, TensorType type,
              OpAttributes attributes = {}) {
    return graph_.AddOp(kind, absl::StrCat(layer_, name), std::move(inputs), std::move(type),
                        std::move(attributes));
  }

  std::string TensorName(absl::string_view tensor) const {
    return layer_.empty() ? absl::StrCat(tensor, ".weight")
                          : absl::StrCat("model.", layer_, tensor, ".weight");
  }

  // The first error stays in status_; building goes on with value 0 until a caller looks.
  Operands Weight(absl::string_view name, absl::StatusOr<OperandWeight> weight) {
    status_.Update(weight.status());
    if (!weight.ok()) return {WeightForm(), false, {0}};
    Operands operands = {weight->form, weight->transposed, {}};
    const std::vector<WeightPart> parts = weight->form.Parts();
    for (size_t i = 0; i < parts.size(); ++i) {
      operands.values.push_back(
          graph_.AddWeight(std::string(name), std::move(weight->parts[i]), parts[i]));
    }
    return operands;
  }

  // The inputs of an operation on x over a weight.
  static std::vector<uint32_t> Over(uint32_t x, const Operands& weight) {
    std::vector<uint32_t> inputs = {x};
    inputs.insert(inputs.end(), weight.values.begin(), weight.values.end());
    return inputs;
  }

  TensorType Type(ElementType element, std::vector<int64_t> dims) {
    absl::StatusOr<Shape> shape = Shape::Create(dims);
    absl::StatusOr<TensorType> type =
        shape.ok() ? TensorType::Create(element, *std::move(shape)) : shape.status();
    if (type.ok()) return *std::move(type);
    status_.Update(Annotate(
        type.status(), absl::StrCat("activation of dimensions [", absl::StrJoin(dims, ","), "]")));
    return TensorType();
  }

  TensorType Rows(int64_t columns) { return Type(ElementType::kF32, {options_.chunk, columns}); }

  const ModelConfig& config_;
  const CompileOptions& options_;
  Weights weights_;
  Graph graph_;
  uint32_t span_ = 0;
  std::string layer_;  // "layers.3.", empty outside the layers
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Graph> BuildLlama(const Checkpoint& model, const CompileOptions& options) {
  return LlamaBuilder(model, options).Build();
}

}  // namespace npubank

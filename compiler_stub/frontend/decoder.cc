#include "npubank/compiler_stub/frontend/decoder.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// The inputs of an operation on x over a weight's values.
std::vector<uint32_t> Over(uint32_t x, const std::vector<uint32_t>& weight) {
  std::vector<uint32_t> inputs = {x};
  inputs.insert(inputs.end(), weight.begin(), weight.end());
  return inputs;
}

}  // namespace

absl::StatusOr<Graph> Decoder::Build(absl::FunctionRef<uint32_t(uint32_t hidden)> layer) {
  const uint32_t tokens = graph_.AddInput("tokens", Type(ElementType::kI32, {options_.chunk}));
  span_ = graph_.AddInput("span", Type(ElementType::kI32, {2}));
  const std::string name = "model.embed_tokens.weight";
  const Operands table = Weight(
      name, weights_.Table(name, config_.vocab_size, config_.hidden_size, config_.tied_embeddings));
  if (!status_.ok()) return status_;
  OpAttributes attributes;
  attributes.form = table.form;
  uint32_t hidden = Op(OpKind::kEmbed, "embed", Over(tokens, table.values),
                       Rows(config_.hidden_size), attributes);
  for (int64_t number = 0; number < config_.num_layers; ++number) {
    layer_ = absl::StrCat("layers.", number, ".");
    hidden = layer(hidden);
    if (!status_.ok()) return status_;
  }
  layer_.clear();
  Head(hidden, table);
  if (!status_.ok()) return status_;
  return std::move(graph_);
}

void Decoder::Head(uint32_t hidden, const Operands& table) {
  const int64_t vocabulary = config_.vocab_size;
  const TensorType row = Type(ElementType::kF32, {1, config_.hidden_size});
  const uint32_t last = Op(OpKind::kSelectLast, "select_last", {hidden, span_}, row);
  const uint32_t x = Norm("final_norm", "model.norm", last);
  // A tied head is the embedding table itself, [V, D], so that the bank holds it once.
  const Operands head = config_.tied_embeddings
                            ? table
                            : Weight("lm_head.weight", weights_.Matrix("lm_head.weight", vocabulary,
                                                                       config_.hidden_size));
  if (!status_.ok()) return;
  graph_.AddOutput(MatMul("logits", x, head, Type(ElementType::kF32, {1, vocabulary})));
}

uint32_t Decoder::Norm(absl::string_view name, absl::string_view tensor, uint32_t x) {
  return NormOver(name, tensor, x, config_.hidden_size);
}

uint32_t Decoder::HeadNorm(absl::string_view name, absl::string_view tensor, uint32_t x) {
  return NormOver(name, tensor, x, config_.head_dim);
}

uint32_t Decoder::NormOver(absl::string_view name, absl::string_view tensor, uint32_t x,
                           int64_t size) {
  const std::string weight_name = TensorName(tensor);
  const Operands weight = Weight(weight_name, weights_.Vector(weight_name, size, OpKind::kRmsNorm));
  OpAttributes attributes;
  attributes.epsilon = static_cast<float>(config_.rms_norm_eps);
  return Op(OpKind::kRmsNorm, name, Over(x, weight.values), graph_.value(x).type, attributes);
}

uint32_t Decoder::Linear(absl::string_view name, absl::string_view tensor, uint32_t x, int64_t out,
                         RowRange rows) {
  std::string weight_name = TensorName(tensor);
  absl::StatusOr<OperandWeight> weight = weights_.Matrix(weight_name, out, Columns(x), rows);
  if (!rows.all()) absl::StrAppend(&weight_name, "[", rows.first, ":", rows.first + out, "]");
  return MatMul(name, x, Weight(weight_name, std::move(weight)), Rows(out));
}

uint32_t Decoder::MatMul(absl::string_view name, uint32_t x, const Operands& weight,
                         TensorType type) {
  OpAttributes attributes;
  attributes.transposed = weight.transposed;
  attributes.form = weight.form;
  return Op(OpKind::kMatMul, name, Over(x, weight.values), std::move(type), attributes);
}

uint32_t Decoder::Bias(absl::string_view name, absl::string_view tensor, uint32_t x) {
  const std::string bias_name = TensorName(tensor, ".bias");
  const Operands bias = Weight(bias_name, weights_.Vector(bias_name, Columns(x), OpKind::kAddBias));
  return Op(OpKind::kAddBias, absl::StrCat(name, "_bias"), Over(x, bias.values),
            graph_.value(x).type);
}

uint32_t Decoder::Rope(absl::string_view name, uint32_t x) {
  OpAttributes attributes;
  attributes.frequencies = config_.rope_frequencies;
  attributes.interleaved = config_.rope_interleaved;
  attributes.head_dim = config_.head_dim;
  return Op(OpKind::kRope, name, {x, span_}, graph_.value(x).type, attributes);
}

uint32_t Decoder::CacheKeys(uint32_t k) { return CacheWrite("key_cache", Rope("k_rope", k)); }

uint32_t Decoder::CacheValues(uint32_t v) { return CacheWrite("value_cache", v); }

uint32_t Decoder::CacheWrite(absl::string_view cache, uint32_t rows) {
  const TensorType type = Type(ElementType::kF32, {options_.context, kv_width()});
  const uint32_t state = graph_.AddState(absl::StrCat(layer_, cache), type);
  return Op(OpKind::kCacheWrite, absl::StrCat(cache, "_write"), {rows, state, span_}, type);
}

OpAttributes Decoder::HeadAttributes(int64_t first, int64_t heads) const {
  OpAttributes attributes;
  attributes.head_dim = config_.head_dim;
  attributes.heads = heads;
  attributes.first_head = first;
  attributes.heads_per_kv_head = config_.num_heads / config_.num_kv_heads;
  attributes.window = config_.sliding_window;
  return attributes;
}

// Scores, softmax and mix over all heads at once, or head after head into one result.
uint32_t Decoder::Attention(uint32_t q, uint32_t keys, uint32_t values) {
  const uint32_t queries = Rope("q_rope", q);
  const bool whole = options_.attention == AttentionForm::kWhole;
  const int64_t step = whole ? config_.num_heads : 1;
  const TensorType scores_type = Type(ElementType::kF32, {step, options_.chunk, options_.context});
  // Rotary positions may come with a factor to queries and keys, which is one to their products.
  const double magnitude = config_.rope_magnitude * config_.rope_magnitude;
  uint32_t mixed = 0;
  for (int64_t head = 0; head < config_.num_heads; head += step) {
    const std::string suffix = whole ? "" : absl::StrCat(".", head);
    OpAttributes attributes = HeadAttributes(head, step);
    attributes.scale =
        static_cast<float>(magnitude / std::sqrt(static_cast<double>(config_.head_dim)));
    uint32_t scores = Op(OpKind::kAttentionScores, absl::StrCat("scores", suffix),
                         {queries, keys, span_}, scores_type, attributes);
    OpAttributes seen;
    seen.window = config_.sliding_window;
    scores =
        Op(OpKind::kSoftmax, absl::StrCat("softmax", suffix), {scores, span_}, scores_type, seen);
    std::vector<uint32_t> inputs = {scores, values, span_};
    if (head > 0) inputs.push_back(mixed);
    mixed = Op(OpKind::kAttentionMix, absl::StrCat("mix", suffix), std::move(inputs),
               Rows(query_width()), HeadAttributes(head, step));
  }
  return mixed;
}

uint32_t Decoder::AddAttention(uint32_t hidden, uint32_t mixed) {
  const uint32_t out = Linear("o", "self_attn.o_proj", mixed, config_.hidden_size);
  return Op(OpKind::kAdd, "attention_add", {hidden, out}, Rows(config_.hidden_size));
}

uint32_t Decoder::AddSwiGlu(uint32_t hidden, uint32_t gate, uint32_t up) {
  const uint32_t product =
      Op(OpKind::kSiluMul, "silu_mul", {gate, up}, Rows(config_.intermediate_size));
  const uint32_t down = Linear("down", "mlp.down_proj", product, config_.hidden_size);
  return Op(OpKind::kAdd, "mlp_add", {hidden, down}, Rows(config_.hidden_size));
}

uint32_t Decoder::AddFeedForward(uint32_t hidden) {
  const int64_t inner = config_.intermediate_size;
  const uint32_t x = Norm("mlp_norm", "post_attention_layernorm", hidden);
  const uint32_t gate = Linear("gate", "mlp.gate_proj", x, inner);
  const uint32_t up = Linear("up", "mlp.up_proj", x, inner);
  return AddSwiGlu(hidden, gate, up);
}

uint32_t Decoder::Op(OpKind kind, absl::string_view name, std::vector<uint32_t> inputs,
                     TensorType type, OpAttributes attributes) {
  return graph_.AddOp(kind, absl::StrCat(layer_, name), std::move(inputs), std::move(type),
                      std::move(attributes));
}

std::string Decoder::TensorName(absl::string_view tensor, absl::string_view suffix) const {
  return layer_.empty() ? absl::StrCat(tensor, suffix)
                        : absl::StrCat("model.", layer_, tensor, suffix);
}

Decoder::Operands Decoder::Weight(absl::string_view name, absl::StatusOr<OperandWeight> weight) {
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

TensorType Decoder::Type(ElementType element, std::vector<int64_t> dims) {
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  absl::StatusOr<TensorType> type =
      shape.ok() ? TensorType::Create(element, *std::move(shape)) : shape.status();
  if (type.ok()) return *std::move(type);
  status_.Update(Annotate(
      type.status(), absl::StrCat("activation of dimensions [", absl::StrJoin(dims, ","), "]")));
  return TensorType();
}

// TensorType() has no dimensions; then there is an error already.
int64_t Decoder::Columns(uint32_t value) const {
  const Shape& shape = graph_.value(value).type.shape();
  return shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1);
}

}  // namespace npubank

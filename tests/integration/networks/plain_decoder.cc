#include "npubank/tests/integration/networks/plain_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace npubank {
namespace {

using Network = CheckpointNetwork;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void AddTo(std::vector<double>& to, const std::vector<double>& more) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

PlainDecoder::PlainDecoder(const Checkpoint& model, const CheckpointShape& shape)
    : model_(model),
      shape_(shape),
      head_dim_(
          static_cast<size_t>(shape.head_dim != 0 ? shape.head_dim : shape.hidden / shape.heads)),
      gguf_(shape.format >= CheckpointFormat::kGgufQ4_0) {}

const PlainDecoder::Rows& PlainDecoder::Weight(const std::string& name) {
  Rows& rows = weights_[name];
  if (!rows.empty()) return rows;
  auto tensor = model_.Tensor(name);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (tensor.ok() && tensor->type().element() != ElementType::kF32)
    tensor = tensor->Convert(ElementType::kF32);
  if (!tensor.ok()) return rows = {Row(1)};
  std::vector<float> numbers(static_cast<size_t>(tensor->type().num_elements()));
  const absl::Status read = tensor->EvaluateInto(
      absl::MakeSpan(reinterpret_cast<std::byte*>(numbers.data()), numbers.size() * sizeof(float)));
  EXPECT_TRUE(read.ok()) << name << ": " << read;
  const Shape& shape = tensor->type().shape();
  const auto columns = static_cast<size_t>(shape.dim(shape.rank() - 1));
  for (size_t i = 0; i < numbers.size(); i += columns) {
    rows.emplace_back(numbers.begin() + static_cast<ptrdiff_t>(i),
                      numbers.begin() + static_cast<ptrdiff_t>(i + columns));
  }
  return rows;
}

// A weight shorter than x is over each piece of x by itself.
PlainDecoder::Row PlainDecoder::Norm(const Row& x, const std::string& name) {
  const Row& weight = Weight(name)[0];
  Row out(x.size());
  for (size_t piece = 0; piece < x.size(); piece += weight.size()) {
    double squares = 0;
    for (size_t i = 0; i < weight.size(); ++i) squares += x[piece + i] * x[piece + i];
    const double size = std::sqrt(squares / static_cast<double>(weight.size()) + 1e-5);
    for (size_t i = 0; i < weight.size(); ++i) out[piece + i] = x[piece + i] / size * weight[i];
  }
  return out;
}

PlainDecoder::Row PlainDecoder::Times(const std::string& name, const Row& x, size_t first,
                                      size_t out) {
  const Rows& matrix = Weight(name);
  if (out == 0) out = matrix.size();
  Row result;
  for (size_t r = first; r < first + out; ++r) result.push_back(Dot(matrix[r], x));
  return result;
}

double PlainDecoder::Radians(size_t pair) const {
  const double plain =
      std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim_));
  if (shape_.original_context == 0) return plain;
  // In a file of factors, and in Phi-3's config: 1, 1 + 1/16, ...
  if (gguf_ || shape_.network == Network::kPhi3)
    return plain / (1 + static_cast<double>(pair) / 16);
  // Llama 3.1: by eight where a turn is longer than the original context, not at all where four turns fit, between in between.
  const double turns = static_cast<double>(shape_.original_context) * plain / (2 * std::acos(-1.0));
  if (turns > 4) return plain;
  if (turns < 1) return plain / 8;
  const double blend = (turns - 1) / 3;
  return (1 - blend) * plain / 8 + blend * plain;
}

void PlainDecoder::Turn(Row& heads, size_t position) const {
  const bool pairs_lie_together = gguf_ && shape_.network <= Network::kMistral;
  for (size_t head = 0; head < heads.size(); head += head_dim_) {
    for (size_t i = 0; i < head_dim_ / 2; ++i) {
      const double angle = static_cast<double>(position) * Radians(i);
      double& a = heads[head + (pairs_lie_together ? 2 * i : i)];
      double& b = heads[head + (pairs_lie_together ? 2 * i + 1 : i + head_dim_ / 2)];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

// Queries, keys or values before they are turned.
PlainDecoder::Row PlainDecoder::Project(const std::string& layer, char which, const Row& x) {
  const size_t query = static_cast<size_t>(shape_.heads) * head_dim_;
  const size_t kv = static_cast<size_t>(shape_.kv_heads) * head_dim_;
  if (shape_.network == Network::kPhi3) {
    const std::string name = layer + "self_attn.qkv_proj.weight";
    if (which == 'q') return Times(name, x, 0, query);
    return Times(name, x, which == 'k' ? query : query + kv, kv);
  }
  const std::string stem = absl::StrCat(layer, "self_attn.", std::string(1, which), "_");
  Row out = Times(stem + "proj.weight", x);
  if (shape_.network == Network::kQwen2) AddTo(out, Weight(stem + "proj.bias")[0]);
  if (shape_.network == Network::kQwen3 && which != 'v') out = Norm(out, stem + "norm.weight");
  return out;
}

PlainDecoder::Row PlainDecoder::Attend(const Row& query, const Rows& keys, const Rows& values,
                                       size_t position) const {
  const auto window = static_cast<size_t>(shape_.window);
  const bool has_window = window != 0 && (shape_.network == Network::kPhi3 ||
                                          (shape_.network == Network::kMistral && !gguf_));
  const size_t first = has_window && position + 1 > window ? position + 1 - window : 0;
  double scale = 1 / std::sqrt(static_cast<double>(head_dim_));
  if (shape_.network == Network::kPhi3 && shape_.original_context != 0) {
    const auto original = static_cast<double>(shape_.original_context);
    // The square of longrope's magnitude: it is in queries and in keys.
    scale *= 1 + std::log(static_cast<double>(shape_.context) / original) / std::log(original);
  }
  Row mixed(query.size());
  for (size_t head = 0; head < static_cast<size_t>(shape_.heads); ++head) {
    const size_t q = head * head_dim_;
    const size_t kv = head / static_cast<size_t>(shape_.heads / shape_.kv_heads) * head_dim_;
    Row likely;
    for (size_t p = first; p <= position; ++p) {
      double score = 0;
      for (size_t i = 0; i < head_dim_; ++i) score += query[q + i] * keys[p][kv + i];
      likely.push_back(std::exp(score * scale));
    }
    double sum = 0;
    for (const double one : likely) sum += one;
    for (size_t p = first; p <= position; ++p) {
      for (size_t i = 0; i < head_dim_; ++i)
        mixed[q + i] += likely[p - first] / sum * values[p][kv + i];
    }
  }
  return mixed;
}

PlainDecoder::Row PlainDecoder::FeedForward(const std::string& layer, const Row& x) {
  const auto inner = static_cast<size_t>(shape_.intermediate);
  const bool fused = shape_.network == Network::kPhi3;
  Row gate = fused ? Times(layer + "mlp.gate_up_proj.weight", x, 0, inner)
                   : Times(layer + "mlp.gate_proj.weight", x);
  const Row up = fused ? Times(layer + "mlp.gate_up_proj.weight", x, inner, inner)
                       : Times(layer + "mlp.up_proj.weight", x);
  for (size_t i = 0; i < inner; ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return Times(layer + "mlp.down_proj.weight", gate);
}

std::vector<double> PlainDecoder::Logits(const std::vector<int32_t>& tokens) {
  Rows hidden;
  for (const int32_t token : tokens) {
    hidden.push_back(Weight("model.embed_tokens.weight")[static_cast<size_t>(token)]);
  }
  for (int64_t number = 0; number < shape_.layers; ++number) {
    const std::string layer = absl::StrCat("model.layers.", number, ".");
    Rows queries, keys, values;
    for (size_t p = 0; p < hidden.size(); ++p) {
      const Row x = Norm(hidden[p], layer + "input_layernorm.weight");
      queries.push_back(Project(layer, 'q', x));
      keys.push_back(Project(layer, 'k', x));
      values.push_back(Project(layer, 'v', x));
      Turn(queries[p], p);
      Turn(keys[p], p);
    }
    for (size_t p = 0; p < hidden.size(); ++p) {
      AddTo(hidden[p],
            Times(layer + "self_attn.o_proj.weight", Attend(queries[p], keys, values, p)));
      AddTo(hidden[p],
            FeedForward(layer, Norm(hidden[p], layer + "post_attention_layernorm.weight")));
    }
  }
  const char* head = shape_.tied ? "model.embed_tokens.weight" : "lm_head.weight";
  return Times(head, Norm(hidden.back(), "model.norm.weight"));
}

}  // namespace npubank

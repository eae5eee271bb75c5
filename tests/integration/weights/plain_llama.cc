#include "npubank/tests/integration/weights/plain_llama.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/kernels/float_bits.h"
#include "npubank/tests/support/program.h"

namespace npubank {
namespace {

float ToHalfAndBack(float number) { return kernels::F16ToF32(kernels::F32ToF16(number)); }

// One group of activations as integers up to 127 and a scale, and back.
void RoundToEightBits(float* x, int64_t count) {
  float largest = 0;  // with its sign
  for (int64_t i = 0; i < count; ++i)
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  if (largest == 0) return;
  // Groups of 256 send their largest to -127 and keep an F32 scale; those of 32 keep an F16 one.
  const bool wide = count == 256;
  const float to = wide ? -127 / largest : 127 / std::fabs(largest);
  const float scale = wide ? 1 / to : ToHalfAndBack(std::fabs(largest) / 127);
  for (int64_t i = 0; i < count; ++i) x[i] = std::nearbyintf(x[i] * to) * scale;
}

}  // namespace

PlainLlama::PlainLlama(const std::string& path, Activations activations) : activations_(activations) {
  Read(path);
  heads_ = Number("llama.attention.head_count");
  kv_heads_ = Number("llama.attention.head_count_kv");
  head_dim_ = Number("llama.embedding_length") / heads_;
  caches_.resize(Number("llama.block_count"));
}

void PlainLlama::Read(const std::string& path) {
  auto source = Source::OpenFile(path);
  ASSERT_TRUE(source.ok()) << source.status();
  auto gguf = ReadGguf(**source);
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  gguf_ = *std::move(gguf);
  const std::string bytes = ReadWholeFile(path);
  for (const GgufTensor& tensor : gguf_.tensors) {
    Matrix& matrix = weights_[tensor.name];
    matrix.values.resize(tensor.shape.num_elements());
    matrix.columns = tensor.shape.dims().back();
    const char* const stored = bytes.data() + tensor.offset;
    if (const auto* format = std::get_if<kernels::BlockFormat>(&tensor.format)) {
      const size_t length = kernels::BlockLength(*format);
      matrix.group = static_cast<int64_t>(length);
      kernels::ReferenceDequantizeBlocks(*format, stored, ElementType::kF32, matrix.values.data(),
                                         matrix.values.size() / length);
    } else {
      ASSERT_EQ(std::get<ElementType>(tensor.format), ElementType::kF32) << tensor.name;
      std::memcpy(matrix.values.data(), stored, tensor.bytes);
    }
  }
}

int64_t PlainLlama::Number(const std::string& key) const {
  const GgufValue* value = gguf_.Find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? 1 : static_cast<int64_t>(std::get<uint64_t>(value->value));
}

double PlainLlama::Real(const std::string& key) const {
  const GgufValue* value = gguf_.Find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? 1 : std::get<double>(value->value);
}

const PlainLlama::Matrix& PlainLlama::Weight(const std::string& name) const {
  static const Matrix* const nothing = new Matrix;
  const auto at = weights_.find(name + ".weight");
  EXPECT_NE(at, weights_.end()) << name;
  return at == weights_.end() ? *nothing : at->second;
}

std::vector<float> PlainLlama::Multiply(const std::string& name, std::vector<float> x) const {
  const Matrix& weight = Weight(name);
  if (activations_ == Activations::kEightBits && weight.group > 0)
    for (int64_t at = 0; at < weight.columns; at += weight.group) RoundToEightBits(&x[at], weight.group);
  std::vector<float> y(weight.values.size() / weight.columns);
  for (size_t row = 0; row < y.size(); ++row) {
    double sum = 0;
    for (int64_t i = 0; i < weight.columns; ++i) sum += double{weight.values[row * weight.columns + i]} * x[i];
    y[row] = static_cast<float>(sum);
  }
  return y;
}

std::vector<float> PlainLlama::Norm(const std::string& name, const std::vector<float>& x) const {
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  const double mean = squares / static_cast<double>(x.size());
  const double scale = 1 / std::sqrt(mean + Real("llama.attention.layer_norm_rms_epsilon"));
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(x[i] * scale * Weight(name).values[i]);
  return y;
}

// Each pair of neighbours of each head.
void PlainLlama::Rotate(std::vector<float>& rows) const {
  const double base = Real("llama.rope.freq_base");
  for (size_t at = 0; at < rows.size(); at += 2) {
    const double turn = static_cast<double>(static_cast<int64_t>(at) % head_dim_) / static_cast<double>(head_dim_);
    const double angle = static_cast<double>(position_) * std::pow(base, -turn);
    const double a = rows[at], b = rows[at + 1];
    rows[at] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
    rows[at + 1] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
  }
}

void PlainLlama::RoundToHalf(std::vector<float>& numbers) const {
  if (activations_ == Activations::kExact) return;
  for (float& number : numbers) number = ToHalfAndBack(number);
}

std::vector<float> PlainLlama::Attend(std::vector<float> queries, const Cache& cache) const {
  RoundToHalf(queries);
  const int64_t width = kv_heads_ * head_dim_;
  std::vector<float> mixed(queries.size());
  for (int64_t head = 0; head < heads_; ++head) {
    const float* const query = &queries[head * head_dim_];
    const int64_t column = head / (heads_ / kv_heads_) * head_dim_;  // in a row of the cache
    std::vector<float> shares(position_ + 1);
    for (int64_t at = 0; at <= position_; ++at) {
      double sum = 0;
      for (int64_t i = 0; i < head_dim_; ++i) sum += double{query[i]} * cache.keys[at * width + column + i];
      shares[at] = static_cast<float>(sum / std::sqrt(static_cast<double>(head_dim_)));
    }
    const float largest = *std::max_element(shares.begin(), shares.end());
    double total = 0;
    for (float& share : shares) total += share = std::exp(share - largest);
    for (float& share : shares) share = static_cast<float>(share / total);
    RoundToHalf(shares);
    for (int64_t i = 0; i < head_dim_; ++i) {
      double sum = 0;
      for (int64_t at = 0; at <= position_; ++at) sum += double{shares[at]} * cache.values[at * width + column + i];
      mixed[head * head_dim_ + i] = static_cast<float>(sum);
    }
  }
  return mixed;
}

void PlainLlama::Layer(const std::string& prefix, Cache& cache, std::vector<float>& x) const {
  const auto add = [&](const std::vector<float>& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  };
  std::vector<float> seen = Norm(prefix + "attn_norm", x);
  std::vector<float> queries = Multiply(prefix + "attn_q", seen);
  std::vector<float> keys = Multiply(prefix + "attn_k", seen);
  std::vector<float> values = Multiply(prefix + "attn_v", seen);
  Rotate(queries);
  Rotate(keys);
  RoundToHalf(keys);
  RoundToHalf(values);
  cache.keys.insert(cache.keys.end(), keys.begin(), keys.end());
  cache.values.insert(cache.values.end(), values.begin(), values.end());
  add(Multiply(prefix + "attn_output", Attend(queries, cache)));
  seen = Norm(prefix + "ffn_norm", x);
  std::vector<float> gate = Multiply(prefix + "ffn_gate", seen);
  const std::vector<float> up = Multiply(prefix + "ffn_up", seen);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
  add(Multiply(prefix + "ffn_down", gate));
}

std::vector<float> PlainLlama::Feed(int32_t id) {
  const Matrix& embedding = Weight("token_embd");
  const auto row = embedding.values.begin() + id * embedding.columns;
  std::vector<float> x(row, row + embedding.columns);
  for (size_t layer = 0; layer < caches_.size(); ++layer) Layer(absl::StrCat("blk.", layer, "."), caches_[layer], x);
  ++position_;
  return Multiply("output", Norm("output_norm", x));
}

}  // namespace npubank

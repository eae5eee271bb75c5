// Decoder: the pieces that the networks are put together from (networks.h).
//
//   Decoder d(*checkpoint, options);
//   return d.Build([&](uint32_t hidden) {                     // of every layer
//     const uint32_t x = d.Norm("attention_norm", "input_layernorm", hidden);
//     const uint32_t keys = d.CacheKeys(d.Linear("k", "self_attn.k_proj", x, d.kv_width()));
//     ...
//     return d.AddFeedForward(hidden);
//   });
//
// A piece takes values of the graph and returns one: F32, a row for each of the S positions. `name` is what the operation
// makes, "gate"; `tensor` the stored weight without ".weight", "mlp.gate_proj"; both belong to the layer that is being
// built. In a network's description keys and values come before queries: they move into the cache before those need room.
//
// A description goes on after an error, with values of no meaning; Build returns the first. Threads: none of its own.
#ifndef NPUBANK_COMPILER_STUB_FRONTEND_DECODER_H_
#define NPUBANK_COMPILER_STUB_FRONTEND_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/compiler_stub/frontend/graph.h"
#include "npubank/compiler_stub/frontend/weights.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"

namespace npubank {

class Decoder {
 public:
  // Both must outlive it.
  Decoder(const Checkpoint& model, const CompileOptions& options)
      : config_(model.config()), options_(options), weights_(model, options) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Embedding, `layer` for each of the layers, then the last row that counts through the final norm and the head.
  absl::StatusOr<Graph> Build(absl::FunctionRef<uint32_t(uint32_t hidden)> layer);

  const ModelConfig& config() const { return config_; }
  int64_t query_width() const { return config_.num_heads * config_.head_dim; }
  int64_t kv_width() const { return config_.num_kv_heads * config_.head_dim; }

  uint32_t Norm(absl::string_view name, absl::string_view tensor, uint32_t x);
  // Each head of x by itself, under one weight of head_dim numbers.
  uint32_t HeadNorm(absl::string_view name, absl::string_view tensor, uint32_t x);
  // `rows`: which rows of the stored tensor are this weight; by default all of them.
  uint32_t Linear(absl::string_view name, absl::string_view tensor, uint32_t x, int64_t out,
                  RowRange rows = {});
  // x plus `tensor`.bias; the operation is "NAME_bias".
  uint32_t Bias(absl::string_view name, absl::string_view tensor, uint32_t x);

  // Into the layer's cache: keys rotated by their positions, and values. The cache as it is afterwards.
  uint32_t CacheKeys(uint32_t k);
  uint32_t CacheValues(uint32_t v);
  // Queries, not rotated yet, against the cache: a row of all heads.
  uint32_t Attention(uint32_t q, uint32_t keys, uint32_t values);

  // hidden plus what attention, gate and up, or Llama's feed-forward of hidden, come to.
  uint32_t AddAttention(uint32_t hidden, uint32_t mixed);
  uint32_t AddSwiGlu(uint32_t hidden, uint32_t gate, uint32_t up);
  uint32_t AddFeedForward(uint32_t hidden);

 private:
  // A weight's values in the graph.
  struct Operands {
    WeightForm form;
    bool transposed = false;
    std::vector<uint32_t> values;
  };

  void Head(uint32_t hidden, const Operands& table);
  uint32_t NormOver(absl::string_view name, absl::string_view tensor, uint32_t x, int64_t size);
  uint32_t MatMul(absl::string_view name, uint32_t x, const Operands& weight, TensorType type);
  uint32_t Rope(absl::string_view name, uint32_t x);
  uint32_t CacheWrite(absl::string_view cache, uint32_t rows);
  uint32_t Op(OpKind kind, absl::string_view name, std::vector<uint32_t> inputs, TensorType type,
              OpAttributes attributes = {});
  OpAttributes HeadAttributes(int64_t first, int64_t heads) const;

  // The layer's tensor, or the model's where no layer is being built.
  std::string TensorName(absl::string_view tensor, absl::string_view suffix = ".weight") const;
  Operands Weight(absl::string_view name, absl::StatusOr<OperandWeight> weight);
  TensorType Type(ElementType element, std::vector<int64_t> dims);
  TensorType Rows(int64_t columns) { return Type(ElementType::kF32, {options_.chunk, columns}); }
  int64_t Columns(uint32_t value) const;

  const ModelConfig& config_;
  const CompileOptions& options_;
  const Weights weights_;
  Graph graph_;
  uint32_t span_ = 0;
  std::string layer_;  // "layers.3.", empty outside the layers
  absl::Status status_;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_FRONTEND_DECODER_H_

// Qwen 2 and 2.5: Llama with biases of queries, keys and values.
#include "npubank/compiler_stub/frontend/decoder.h"
#include "npubank/compiler_stub/frontend/networks.h"

namespace npubank {

absl::StatusOr<Graph> BuildQwen2(const Checkpoint& model, const CompileOptions& options) {
  Decoder d(model, options);
  return d.Build([&d](uint32_t hidden) {
    const auto biased = [&d](const char* name, const char* tensor, uint32_t x, int64_t width) {
      return d.Bias(name, tensor, d.Linear(name, tensor, x, width));
    };
    const uint32_t x = d.Norm("attention_norm", "input_layernorm", hidden);
    const uint32_t keys = d.CacheKeys(biased("k", "self_attn.k_proj", x, d.kv_width()));
    const uint32_t values = d.CacheValues(biased("v", "self_attn.v_proj", x, d.kv_width()));
    const uint32_t q = biased("q", "self_attn.q_proj", x, d.query_width());
    hidden = d.AddAttention(hidden, d.Attention(q, keys, values));
    return d.AddFeedForward(hidden);
  });
}

}  // namespace npubank

// Qwen 3: Llama with a norm over each head of queries and keys, before they are rotated.
#include "npubank/compiler_stub/frontend/decoder.h"
#include "npubank/compiler_stub/frontend/networks.h"

namespace npubank {

absl::StatusOr<Graph> BuildQwen3(const Checkpoint& model, const CompileOptions& options) {
  Decoder d(model, options);
  return d.Build([&d](uint32_t hidden) {
    const uint32_t x = d.Norm("attention_norm", "input_layernorm", hidden);
    const uint32_t k = d.Linear("k", "self_attn.k_proj", x, d.kv_width());
    const uint32_t keys = d.CacheKeys(d.HeadNorm("k_norm", "self_attn.k_norm", k));
    const uint32_t values = d.CacheValues(d.Linear("v", "self_attn.v_proj", x, d.kv_width()));
    const uint32_t q = d.Linear("q", "self_attn.q_proj", x, d.query_width());
    const uint32_t queries = d.HeadNorm("q_norm", "self_attn.q_norm", q);
    hidden = d.AddAttention(hidden, d.Attention(queries, keys, values));
    return d.AddFeedForward(hidden);
  });
}

}  // namespace npubank

// Phi-3 and 3.5 mini: Llama whose queries, keys and values are rows of one stored tensor, as are gate and up.
#include "npubank/compiler_stub/frontend/decoder.h"
#include "npubank/compiler_stub/frontend/networks.h"

namespace npubank {

absl::StatusOr<Graph> BuildPhi3(const Checkpoint& model, const CompileOptions& options) {
  Decoder d(model, options);
  return d.Build([&d](uint32_t hidden) {
    const int64_t query = d.query_width();
    const int64_t kv = d.kv_width();
    const auto fused = [&](const char* name, uint32_t x, int64_t width, int64_t first) {
      return d.Linear(name, "self_attn.qkv_proj", x, width, {first, query + 2 * kv});
    };
    const uint32_t x = d.Norm("attention_norm", "input_layernorm", hidden);
    const uint32_t keys = d.CacheKeys(fused("k", x, kv, query));
    const uint32_t values = d.CacheValues(fused("v", x, kv, query + kv));
    const uint32_t q = fused("q", x, query, 0);
    hidden = d.AddAttention(hidden, d.Attention(q, keys, values));

    const int64_t inner = d.config().intermediate_size;
    const uint32_t y = d.Norm("mlp_norm", "post_attention_layernorm", hidden);
    const uint32_t gate = d.Linear("gate", "mlp.gate_up_proj", y, inner, {0, 2 * inner});
    const uint32_t up = d.Linear("up", "mlp.gate_up_proj", y, inner, {inner, 2 * inner});
    return d.AddSwiGlu(hidden, gate, up);
  });
}

}  // namespace npubank

// Phi-3 and 3.5 mini, within their original context.
#include "npubank/lazy_tensor/formats/model/common_names.h"
#include "npubank/lazy_tensor/formats/model/networks.h"

namespace npubank {
namespace {

using enum KnownName::Kind;

constexpr KnownName kConfig[] = {
    {"sliding_window", kUsed},
    {"original_max_position_embeddings", kUsed},
    {"embd_pdrop", kHarmless},
    {"resid_pdrop", kHarmless},
    {"auto_map", kRefused,
     "code of the model's own is not run; remove the key if it computes the plain network",
     R"([{}, {"AutoConfig": "configuration_phi3.Phi3Config",
              "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}])"},
};
constexpr KnownName kRope[] = {
    {"short_factor", kUsed},
    {"long_factor", kHarmless},  // of contexts that are longer than the original one
};

constexpr KnownName kMetadata[] = {
    {"@.attention.sliding_window", kUsed},
    {"@.rope.scaling.original_context_length", kUsed},
    {"@.rope.scaling.attn_factor", kUsed},
};

constexpr TensorName kFused[] = {
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight"},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight"},
};
constexpr KnownName kGgufTensors[] = {
    {"rope_factors_short.weight", kUsed},
    {"rope_factors_long.weight", kHarmless},
};

}  // namespace

const NetworkNames& Phi3Names() {
  static const NetworkNames names = WithCommonNames({.network = "phi3",
                                                     .architecture = "phi3",
                                                     .window = true,
                                                     .long_rope = true,
                                                     .config = {kConfig},
                                                     .rope = {kRope},
                                                     .metadata = {kMetadata},
                                                     .used = {kFused},
                                                     .gguf_tensors = {kGgufTensors}});
  return names;
}

}  // namespace npubank

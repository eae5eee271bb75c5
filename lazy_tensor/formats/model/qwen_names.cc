// Qwen 2 and 2.5; Qwen 3, dense.
#include "npubank/lazy_tensor/formats/model/common_names.h"
#include "npubank/lazy_tensor/formats/model/networks.h"

namespace npubank {
namespace {

using enum KnownName::Kind;

constexpr char kSomeLayers[] = "a sliding window in some layers is not supported";

constexpr KnownName kConfig[] = {
    {"use_sliding_window", kRefused, kSomeLayers, "[false]"},
    {"sliding_window", kHarmless},     // of no effect while it is not used
    {"max_window_layers", kHarmless},  // the same
    {"layer_types", kRefused, kSomeLayers, R"(["full_attention"])"},
    {"use_mrope", kRefused, "positions in three dimensions are not supported", "[false]"},
};

constexpr TensorName kBiases[] = {
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias"},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias"},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
};
constexpr TensorName kHeadNorms[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
};

}  // namespace

const NetworkNames& Qwen2Names() {
  static const NetworkNames names = WithCommonNames({.network = "qwen2",
                                                     .architecture = "qwen2",
                                                     .config = {kConfig},
                                                     .used = {kBiases, TensorsApart()}});
  return names;
}

const NetworkNames& Qwen3Names() {
  static const NetworkNames names = WithCommonNames({.network = "qwen3",
                                                     .architecture = "qwen3",
                                                     .config = {kConfig},
                                                     .used = {kHeadNorms, TensorsApart()}});
  return names;
}

}  // namespace npubank

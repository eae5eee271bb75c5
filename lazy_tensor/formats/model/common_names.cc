#include "npubank/lazy_tensor/formats/model/common_names.h"

namespace npubank {
namespace {

using enum KnownName::Kind;

constexpr char kBiases[] = "layers with biases are not supported in this network";
constexpr char kWindow[] =
    "this network has no sliding window; where every position sees the last ones only, say "
    "model_type 'mistral'";
constexpr char kExperts[] = "experts are not supported";
constexpr char kScaled[] = "scaled activations are not supported";
constexpr char kHeadNorms[] = "norms of queries and keys are not part of this network";
constexpr char kLongRope[] =
    "longrope scaling, with factors for long and short contexts, is not part of this network";
constexpr char kScales[] =
    "scales of weights in another type than the config says; supported are GPTQ, AWQ and "
    "compressed-tensors, named in quantization_config";
constexpr char kPacked[] =
    "a part of a quantised weight, but config.json has no quantization_config that says how";
constexpr char kZeroPoints[] =
    "zero points beside integers are not supported; quantise the model with symmetric=true";
constexpr char kSplit[] = "a model in several files; join them with llama-gguf-split --merge";

constexpr KnownName kConfig[] = {
    {"model_type", kUsed},
    {"vocab_size", kUsed},
    {"hidden_size", kUsed},
    {"intermediate_size", kUsed},
    {"num_hidden_layers", kUsed},
    {"num_attention_heads", kUsed},
    {"num_key_value_heads", kUsed},
    {"head_dim", kUsed},
    {"max_position_embeddings", kUsed},
    {"rms_norm_eps", kUsed},
    {"rope_theta", kUsed},
    {"rope_scaling", kUsed},
    {"rope_parameters", kUsed},
    {"partial_rotary_factor", kUsed},
    {"tie_word_embeddings", kUsed},
    {"bos_token_id", kUsed},
    {"eos_token_id", kUsed},
    {"quantization_config", kUsed},
    {"attention_bias", kRefused, kBiases, "[false]"},
    {"mlp_bias", kRefused, kBiases, "[false]"},
    {"hidden_act", kRefused, "supported is 'silu'", R"(["silu"])"},
    {"rope_interleaved", kRefused, "a folder's rows are in the order of halves; convert the model",
     "[false]"},
    {"sliding_window", kRefused, kWindow},
    {"auto_map", kRefused,
     "code of the model's own is not run; remove the key if it computes the plain network", "[{}]"},
    {"pruned_heads", kRefused, "pruned heads are not supported", "[{}]"},
    {"is_encoder_decoder", kRefused, "supported are decoders", "[false]"},
    {"add_cross_attention", kRefused, "supported are decoders that see themselves only", "[false]"},
    // What these models carry beside it.
    {"architectures", kHarmless},  // the tensors say what there is
    {"attention_dropout", kHarmless},
    {"initializer_range", kHarmless},
    {"torch_dtype", kHarmless},
    {"dtype", kHarmless},
    {"transformers_version", kHarmless},
    {"transformers.js_config", kHarmless},
    {"unsloth_fixed", kHarmless},
    {"unsloth_version", kHarmless},
    {"use_cache", kHarmless},
    {"_*", kHarmless},
    // What transformers knows of any model: tokens, training, generation, what else is to come out.
    {"bad_words_ids", kHarmless},
    {"begin_suppress_tokens", kHarmless},
    {"chunk_size_feed_forward", kHarmless},
    {"cross_attention_hidden_size", kHarmless},
    {"decoder_start_token_id", kHarmless},
    {"diversity_penalty", kHarmless},
    {"do_sample", kHarmless},
    {"early_stopping", kHarmless},
    {"encoder_no_repeat_ngram_size", kHarmless},
    {"exponential_decay_length_penalty", kHarmless},
    {"finetuning_task", kHarmless},
    {"forced_bos_token_id", kHarmless},
    {"forced_eos_token_id", kHarmless},
    {"gradient_checkpointing", kHarmless},
    {"id2label", kHarmless},
    {"is_decoder", kHarmless},
    {"label2id", kHarmless},
    {"length_penalty", kHarmless},
    {"max_length", kHarmless},
    {"min_length", kHarmless},
    {"no_repeat_ngram_size", kHarmless},
    {"num_beam_groups", kHarmless},
    {"num_beams", kHarmless},
    {"num_labels", kHarmless},
    {"num_return_sequences", kHarmless},
    {"output_attentions", kHarmless},
    {"output_hidden_states", kHarmless},
    {"output_scores", kHarmless},
    {"pad_token_id", kHarmless},
    {"prefix", kHarmless},
    {"problem_type", kHarmless},
    {"remove_invalid_values", kHarmless},
    {"repetition_penalty", kHarmless},
    {"return_dict", kHarmless},
    {"return_dict_in_generate", kHarmless},
    {"sep_token_id", kHarmless},
    {"suppress_tokens", kHarmless},
    {"task_specific_params", kHarmless},
    {"temperature", kHarmless},
    {"tf_legacy_loss", kHarmless},
    {"tie_encoder_decoder", kHarmless},
    {"tokenizer_class", kHarmless},
    {"top_k", kHarmless},
    {"top_p", kHarmless},
    {"torchscript", kHarmless},
    {"typical_p", kHarmless},
    {"unk_token_id", kHarmless},
    {"use_bfloat16", kHarmless},
};

constexpr KnownName kRope[] = {
    {"type", kUsed},
    {"rope_type", kUsed},
    {"factor", kUsed},
    {"low_freq_factor", kUsed},
    {"high_freq_factor", kUsed},
    {"original_max_position_embeddings", kUsed},
    {"rope_theta", kUsed},
    {"partial_rotary_factor", kUsed},
    {"short_factor", kRefused, kLongRope},
    {"long_factor", kRefused, kLongRope},
};

constexpr TensorName kEveryTensor[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},  // of a tied head the table is used, and this is its copy
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
};
constexpr TensorName kApart[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight"},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight"},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
};

constexpr KnownName kTensors[] = {
    // Computed from the config; older files have them as they were when the model was saved.
    {"model.layers.#.self_attn.rotary_emb.inv_freq", kHarmless},
    {"model.layers.#.self_attn.rotary_emb.cos_cached", kHarmless},
    {"model.layers.#.self_attn.rotary_emb.sin_cached", kHarmless},
    {"model.rotary_emb.inv_freq", kHarmless},
    {"*.bias", kAdds, kBiases},                   // AutoGPTQ writes zeros
    {"*.weight_zero_point", kAdds, kZeroPoints},  // older files have zeros
    {"*.q_norm.weight", kRefused, kHeadNorms},
    {"*.k_norm.weight", kRefused, kHeadNorms},
    {"*_scale", kRefused, kScales},
    {"*_scale_inv", kRefused, kScales},
    {"*.qweight", kRefused, kPacked},
    {"*.qzeros", kRefused, kPacked},
    {"*.scales", kRefused, kPacked},
    {"*.g_idx", kRefused, kPacked},
    {"*.weight_packed", kRefused, kPacked},
    {"*.weight_shape", kRefused, kPacked},
    {"*.weight_g_idx", kRefused,
     "groups in another order than the inputs are not supported; quantise the model without "
     "actorder"},
};

constexpr KnownName kMetadata[] = {
    {"general.architecture", kUsed},
    {"general.alignment", kUsed},
    {"general.type", kRefused, "supported is 'model'", R"(["model"])"},
    {"general.*", kHarmless},
    {"@.vocab_size", kUsed},
    {"@.embedding_length", kUsed},
    {"@.feed_forward_length", kUsed},
    {"@.block_count", kUsed},
    {"@.context_length", kUsed},
    {"@.attention.head_count", kUsed},
    {"@.attention.head_count_kv", kUsed},
    {"@.attention.key_length", kUsed},
    {"@.attention.value_length", kUsed},
    {"@.attention.layer_norm_rms_epsilon", kUsed},
    {"@.rope.dimension_count", kUsed},
    {"@.rope.freq_base", kUsed},
    {"@.rope.scale_linear", kUsed},
    {"@.rope.scaling.type", kUsed},
    {"@.rope.scaling.factor", kUsed},
    {"@.rope.scaling.original_context_length", kHarmless},  // of types that are refused
    {"@.rope.scaling.finetuned", kHarmless},
    {"@.rope.scaling.attn_factor", kRefused, kScaled, "[0, 1]"},
    {"@.rope.scaling.yarn_log_multiplier", kRefused, kScaled, "[0]"},
    {"@.attention.sliding_window", kRefused, kWindow, "[0]"},
    {"@.attention.causal", kRefused,
     "supported are decoders, where a position sees those before it", "[true]"},
    {"@.attention.scale", kRefused, kScaled, "[0]"},
    {"@.attention.clamp_kqv", kRefused, "clamped queries, keys and values are not supported",
     "[0]"},
    {"@.attention.max_alibi_bias", kRefused, "positions by ALiBi are not supported", "[0]"},
    {"@.attn_logit_softcapping", kRefused, kScaled, "[0]"},
    {"@.final_logit_softcapping", kRefused, kScaled, "[0]"},
    {"@.logit_scale", kRefused, kScaled, "[0, 1]"},
    {"@.embedding_scale", kRefused, kScaled, "[0, 1]"},
    {"@.residual_scale", kRefused, kScaled, "[0, 1]"},
    {"@.use_parallel_residual", kRefused, "parallel residuals are not supported", "[false]"},
    {"@.expert_count", kRefused, kExperts, "[0]"},
    {"@.expert_used_count", kRefused, kExperts, "[0]"},
    {"@.pooling_type", kRefused, "supported are models that give logits", "[0]"},
    {"split.count", kRefused, kSplit, "[0, 1]"},
    {"split.no", kRefused, kSplit, "[0]"},
    {"split.tensors.count", kHarmless},
    {"quantize.*", kHarmless},      // what the quantiser was given
    {"mradermacher.*", kHarmless},  // the same, of one who publishes many
    {"tokenizer.*", kHarmless},     // tokenizers see to them
};

constexpr KnownName kGgufTensors[] = {
    {"blk.#.attn_rot_embd*", kHarmless},  // computed from the metadata
    {"*.bias", kAdds, kBiases},
    {"blk.#.attn_q_norm.weight", kRefused, kHeadNorms},
    {"blk.#.attn_k_norm.weight", kRefused, kHeadNorms},
    {"rope_factors_*", kRefused,
     "longrope scaling, with factors for long and short contexts, is not part of this network; "
     "supported is rope_freqs.weight"},
    {"blk.#.rope_f*", kRefused,
     "rope factors of single layers are not supported; supported is rope_freqs.weight"},
    {"*.scale", kRefused, "scales beside a weight are not supported"},
};

const NetworkNames& CommonNames() {
  static const NetworkNames names = {.config = {kConfig},
                                     .rope = {kRope},
                                     .metadata = {kMetadata},
                                     .used = {kEveryTensor},
                                     .tensors = {kTensors},
                                     .gguf_tensors = {kGgufTensors}};
  return names;
}

}  // namespace

absl::Span<const TensorName> TensorsApart() { return kApart; }

NetworkNames WithCommonNames(NetworkNames own) {
  const NetworkNames& common = CommonNames();
  const auto append = [](auto& to, const auto& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  append(own.config, common.config);
  append(own.rope, common.rope);
  append(own.metadata, common.metadata);
  append(own.used, common.used);
  append(own.tensors, common.tensors);
  append(own.gguf_tensors, common.gguf_tensors);
  return own;
}

}  // namespace npubank

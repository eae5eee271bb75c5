// Metadata and tensors of GGUF files: known, harmless, or refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/tests/unit/formats/gguf_builder.h"
#include "npubank/tests/unit/formats/refused_name.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

// A GGUF file of a model of two layers.
GgufBuilder SmallGguf() {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama");
  for (const auto& [key, value] : {std::pair<const char*, uint32_t>{"llama.context_length", 128},
                                   {"llama.embedding_length", 64},
                                   {"llama.block_count", 2},
                                   {"llama.feed_forward_length", 96},
                                   {"llama.attention.head_count", 8}}) {
    builder.Number(key, value);
  }
  builder.Real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  builder.Tensor("token_embd.weight", {64, 4}, 1, 0);
  return builder;
}
constexpr size_t kSmallData = 64 * 4 * 2;

absl::Status OpenGguf(const GgufBuilder& builder, const std::string& data = "") {
  const TemporaryFolder folder;
  return Checkpoint::Open(folder.Write("x.gguf", builder.Finish(kSmallData) + data)).status();
}

TEST(GgufNamesTest, MetadataOfPublishedGgufFilesIsAccepted) {
  GgufBuilder file = SmallGguf();
  for (const char* key : {"general.name", "general.finetune", "general.basename", "general.license",
                          "general.size_label", "general.base_model.0.repo_url",
                          "tokenizer.ggml.pre", "tokenizer.chat_template", "quantize.imatrix.file",
                          "quantize.imatrix.dataset", "mradermacher.quantized_by"}) {
    file.Text(key, "x");
  }
  file.Text("general.type", "model")
      .Number("general.file_type", 15)
      .Number("general.quantization_version", 2);
  file.Array("general.tags", kGgufString, {GgufBuilder::String("llama-3")});
  file.Number("llama.rope.dimension_count", 8)
      .Real("llama.rope.freq_base", 500000.0f)
      .Number("llama.vocab_size", 4);
  file.Number("llama.attention.head_count_kv", 4).Number("llama.attention.key_length", 8);
  file.Number("llama.attention.value_length", 8).Number("llama.expert_count", 0);
  file.Number("split.count", 0).Number("split.no", 0).Number("quantize.imatrix.entries_count", 224);
  file.Text("llama.tensor_data_layout", "Meta AI original pth");
  EXPECT_EQ(OpenGguf(file), absl::OkStatus());
}

TEST(GgufNamesTest, MetadataThatMakesAnotherNetworkIsRefusedByName) {
  using B = GgufBuilder;
  struct Case {
    const char* key;
    uint32_t type;
    std::string value;
    std::string says_nothing;  // empty: always refused
  };
  const Case kCases[] = {
      {"llama.attention.sliding_window", kGgufUint32, B::Little(4096, 4), B::Little(0, 4)},
      {"llama.attention.causal", kGgufBool, B::Little(0, 1), B::Little(1, 1)},
      {"llama.logit_scale", kGgufFloat32, B::Float(0.0625f), B::Float(1)},
      {"llama.use_parallel_residual", kGgufBool, B::Little(1, 1), B::Little(0, 1)},
      {"llama.attention.scale", kGgufFloat32, B::Float(0.1f), B::Float(0)},
      {"llama.attention.clamp_kqv", kGgufFloat32, B::Float(8), B::Float(0)},
      {"llama.attention.max_alibi_bias", kGgufFloat32, B::Float(8), B::Float(0)},
      {"llama.attn_logit_softcapping", kGgufFloat32, B::Float(50), B::Float(0)},
      {"llama.final_logit_softcapping", kGgufFloat32, B::Float(30), B::Float(0)},
      {"llama.embedding_scale", kGgufFloat32, B::Float(12), B::Float(1)},
      {"llama.residual_scale", kGgufFloat32, B::Float(0.2f), B::Float(0)},
      {"llama.rope.scaling.attn_factor", kGgufFloat32, B::Float(1.2f), B::Float(1)},
      {"llama.expert_count", kGgufUint32, B::Little(8, 4), B::Little(0, 4)},
      {"llama.expert_used_count", kGgufUint32, B::Little(2, 4), B::Little(0, 4)},
      {"llama.pooling_type", kGgufUint32, B::Little(1, 4), B::Little(0, 4)},
      {"general.type", kGgufString, B::String("adapter"), B::String("model")},
      {"split.count", kGgufUint32, B::Little(3, 4), B::Little(1, 4)},
      {"split.no", kGgufUint32, B::Little(1, 4), B::Little(0, 4)},
      {"llama.attention.key_length_mla", kGgufUint32, B::Little(64, 4), ""},
      {"llama.interleave_moe_layer_step", kGgufUint32, B::Little(1, 4), ""},
      {"qwen2.block_count", kGgufUint32, B::Little(1, 4), ""},
      {"adapter.lora.alpha", kGgufFloat32, B::Float(16), ""},
      {"llama.attention.causal_", kGgufArray, B::Little(kGgufUint32, 4) + B::Little(0, 8), ""}};
  for (const Case& c : kCases) {
    ExpectRefused(OpenGguf(SmallGguf().Raw(c.key, c.type, c.value)), "x.gguf: metadata", c.key, "");
    if (c.says_nothing.empty()) continue;
    EXPECT_EQ(OpenGguf(SmallGguf().Raw(c.key, c.type, c.says_nothing)), absl::OkStatus()) << c.key;
  }
}

TEST(GgufNamesTest, ATensorOfAGgufFileThatTheNetworkDoesNotUseIsRefusedByName) {
  const std::pair<const char*, const char*> kRefusedTensors[] = {
      {"blk.0.attn_q.bias", "biases"},
      {"blk.1.attn_output.bias", "biases"},
      {"output.bias", "biases"},
      {"output_norm.bias", "biases"},
      {"blk.0.attn_q_norm.weight", "queries and keys"},
      {"blk.0.attn_k_norm.weight", "queries and keys"},
      {"blk.0.attn_q.scale", "scales"},
      {"rope_factors_long.weight", "longrope"},
      {"rope_factors_short.weight", "rope_freqs.weight"},
      {"blk.0.rope_freqs.weight", "single layers"},
      {"blk.0.ffn_gate_inp.weight", "remove it"},
      {"blk.0.attn_qkv.weight", "remove it"},
      {"blk.2.attn_q.weight", "layer 2, but the config has 2 layers"},
      {"position_embd.weight", "remove it"}};
  for (const auto& [name, why] : kRefusedTensors) {
    ExpectRefused(OpenGguf(SmallGguf().Tensor(name, {8}, 0, kSmallData), std::string(32, 'x')),
                  "x.gguf", name, why);
  }
  EXPECT_EQ(
      OpenGguf(SmallGguf().Tensor("blk.0.attn_q.bias", {8}, 0, kSmallData), std::string(32, '\0')),
      absl::OkStatus())
      << "of zeros";
  EXPECT_EQ(
      OpenGguf(SmallGguf().Tensor("blk.1.attn_rot_embd", {8}, 0, kSmallData), std::string(32, 'x')),
      absl::OkStatus());
}

}  // namespace
}  // namespace npubank

// make-checkpoint: writes a checkpoint of random but repeatable numbers.
//
//   make-checkpoint --out DIR [--network llama|mistral|qwen2|qwen3|phi3 --layers 12 --hidden 768 --heads 12
//                   --kv-heads 4 --intermediate 2048
//                   --vocab 32000 --context 1024 --seed 1 --tied --dtype bf16|f16|f32 --padded --shards N
//                   --format safetensors|gptq|gptq-act-order|gptq-8bit|awq|int8|pack-int8|pack-int4|
//                            gguf-q4_0|gguf-q4_k|gguf-q6_k|gguf-q8_0|gguf-f32
//                   --head-dim N --window N --original-context N]
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/tools/checkpoints/checkpoint_writer.h"
#include "npubank/tools/terminal/command_line.h"

ABSL_FLAG(std::string, out, "", "folder to write; made if it does not exist");
ABSL_FLAG(std::string, network, "llama", "llama, mistral, qwen2, qwen3 or phi3");
ABSL_FLAG(int64_t, layers, 12, "decoder layers");
ABSL_FLAG(int64_t, hidden, 768, "hidden size");
ABSL_FLAG(int64_t, heads, 12, "attention heads");
ABSL_FLAG(int64_t, kv_heads, 4, "key/value heads");
ABSL_FLAG(int64_t, intermediate, 2048, "feed-forward size");
ABSL_FLAG(int64_t, vocab, 32000, "vocabulary size");
ABSL_FLAG(int64_t, context, 1024, "longest context");
ABSL_FLAG(int64_t, head_dim, 0, "size of a head; 0: hidden / heads");
ABSL_FLAG(int64_t, window, 0, "of mistral and phi3: how many positions each one sees; 0: all");
ABSL_FLAG(int64_t, original_context, 0,
          "of llama and phi3: the shorter context that it was made for at first; 0: the same");
ABSL_FLAG(uint64_t, seed, 1, "the same seed gives the same bytes");
ABSL_FLAG(bool, tied, false, "one tensor as embedding and head");
ABSL_FLAG(std::string, dtype, "bf16", "of a model that is not quantised: bf16, f16 or f32");
ABSL_FLAG(std::string, format, "safetensors",
          "safetensors, gptq, gptq-act-order, gptq-8bit, awq, int8, pack-int8, pack-int4, gguf-q4_0, gguf-q4_k, gguf-q6_k, gguf-q8_0 or gguf-f32");
ABSL_FLAG(int64_t, shards, 1, "files that a model in safetensors is spread over");
ABSL_FLAG(bool, padded, false,
          "data of a safetensors file begins at a multiple of 64; else of 8, as others write them");

namespace {

npubank::ProgramHelp Help() {
  return {.name = "make-checkpoint",
          .purpose = "writes a checkpoint of random but repeatable numbers",
          .examples = {"make-checkpoint --out DIR                    about 110 M parameters, BF16",
                       "make-checkpoint --out DIR --layers 2 --hidden 64 --heads 4 --kv-heads 2 "
                       "--vocab 128 --dtype f32",
                       "make-checkpoint --out DIR --format gguf-q4_k        DIR/model.gguf"},
          .groups = {{"Where to", {{"out", "DIR"}}},
                     {"Its shape",
                      {{"network", "NAME"},
                       {"layers", "N"},
                       {"hidden", "N"},
                       {"heads", "N"},
                       {"kv_heads", "N"},
                       {"intermediate", "N"},
                       {"vocab", "N"},
                       {"context", "N"},
                       {"head_dim", "N"},
                       {"window", "N"},
                       {"original_context", "N"},
                       {"tied", ""}}},
                     {"How it is stored", {{"format", "FORMAT"}, {"dtype", "TYPE"}, {"shards", "N"}, {"padded", ""}}},
                     {"Its numbers", {{"seed", "N"}}}}};
}

absl::Status Run(int argc, char** argv) {
  NPUBANK_RETURN_IF_ERROR(npubank::RefuseArguments(npubank::ParseFlags(Help(), argc, argv)));
  const std::string folder = absl::GetFlag(FLAGS_out);
  if (folder.empty()) return absl::InvalidArgumentError("--out is needed: the folder to write");
  npubank::CheckpointShape shape;
  const std::string network_name = absl::GetFlag(FLAGS_network);
  const auto network = npubank::CheckpointNetworkFromName(network_name);
  if (!network)
    return absl::InvalidArgumentError(absl::StrCat(
        "--network '", network_name, "' is not one of llama, mistral, qwen2, qwen3, phi3"));
  shape.network = *network;
  shape.head_dim = absl::GetFlag(FLAGS_head_dim);
  shape.window = absl::GetFlag(FLAGS_window);
  shape.original_context = absl::GetFlag(FLAGS_original_context);
  shape.layers = absl::GetFlag(FLAGS_layers);
  shape.hidden = absl::GetFlag(FLAGS_hidden);
  shape.heads = absl::GetFlag(FLAGS_heads);
  shape.kv_heads = absl::GetFlag(FLAGS_kv_heads);
  shape.intermediate = absl::GetFlag(FLAGS_intermediate);
  shape.vocab = absl::GetFlag(FLAGS_vocab);
  shape.context = absl::GetFlag(FLAGS_context);
  shape.seed = absl::GetFlag(FLAGS_seed);
  shape.tied = absl::GetFlag(FLAGS_tied);
  const std::string dtype = absl::AsciiStrToUpper(absl::GetFlag(FLAGS_dtype));
  const auto element = npubank::ElementTypeFromName(dtype);
  if (!element)
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype '", absl::GetFlag(FLAGS_dtype), "' is not one of bf16, f16, f32"));
  shape.element = *element;

  const std::string name = absl::GetFlag(FLAGS_format);
  const auto format = npubank::CheckpointFormatFromName(name);
  if (!format)
    return absl::InvalidArgumentError(
        absl::StrCat("--format '", name,
                     "' is not one of safetensors, gptq, gptq-act-order, gptq-8bit, awq, int8, pack-int8, pack-int4, "
                     "gguf-q4_0, gguf-q4_k, gguf-q6_k, gguf-q8_0, gguf-f32"));
  shape.format = *format;
  shape.padded = absl::GetFlag(FLAGS_padded);
  shape.shards = absl::GetFlag(FLAGS_shards);
  const bool plain = *format == npubank::CheckpointFormat::kSafetensors;

  NPUBANK_ASSIGN_OR_RETURN(const int64_t parameters, npubank::CountParameters(shape));
  NPUBANK_ASSIGN_OR_RETURN(const std::string model, npubank::WriteCheckpoint(shape, folder));
  std::printf("%s: %.1f M parameters, %s, seed %llu\n", model.c_str(),
              static_cast<double>(parameters) / 1e6, plain ? dtype.c_str() : name.c_str(),
              static_cast<unsigned long long>(shape.seed));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return npubank::ExitStatus(Run(argc, argv)); }

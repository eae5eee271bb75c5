// Llama 1 to 3.2, TinyLlama and SmolLM2; Mistral, whose GGUF files are llama's.
#include "npubank/lazy_tensor/formats/model/common_names.h"
#include "npubank/lazy_tensor/formats/model/networks.h"

namespace npubank {
namespace {

using enum KnownName::Kind;

constexpr KnownName kConfig[] = {
    {"is_llama_config", kHarmless},
    {"max_sequence_length", kHarmless},
    {"pretraining_tp", kHarmless},  // how products are cut into pieces
};
constexpr KnownName kMistralConfig[] = {{"sliding_window", kUsed}};

constexpr KnownName kMetadata[] = {
    {"@.tensor_data_layout", kRefused, "supported is the order of Meta's rows",
     R"(["Meta AI original pth"])"},
};
constexpr KnownName kGgufTensors[] = {{"rope_freqs.weight", kUsed}};  // Llama 3's rope scaling

}  // namespace

const NetworkNames& LlamaNames() {
  static const NetworkNames names = WithCommonNames({.network = "llama",
                                                     .architecture = "llama",
                                                     .gguf_interleaved = true,
                                                     .config = {kConfig},
                                                     .metadata = {kMetadata},
                                                     .used = {TensorsApart()},
                                                     .gguf_tensors = {kGgufTensors}});
  return names;
}

const NetworkNames& MistralNames() {
  static const NetworkNames names = WithCommonNames({.network = "mistral",
                                                     .window = true,
                                                     .window_unsaid = 4096,
                                                     .config = {kMistralConfig},
                                                     .used = {TensorsApart()}});
  return names;
}

}  // namespace npubank

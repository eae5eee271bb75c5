// Whatever is taken from a network's files, named otherwise or put beside is used or refused by name: each key of config.json
// and of GGUF's metadata, each tensor of either.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/tests/integration/networks/network_shapes.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/unit/formats/gguf_builder.h"
#include "npubank/tools/checkpoints/made_up_network.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// What files say, before it is written: the test changes one thing.
struct Files {
  bool gguf = false;
  Json keys;  // config.json, or metadata
  std::vector<LogicalTensor> tensors;

  const std::string& NameOf(const LogicalTensor& tensor) const {
    return gguf ? tensor.gguf : tensor.hub;
  }
};

uint64_t BytesOf(const LogicalTensor& tensor) {
  uint64_t bytes = sizeof(float);
  for (const int64_t dim : tensor.dims) bytes *= static_cast<uint64_t>(dim);
  return (bytes + 31) / 32 * 32;
}

// Of ones, which serve as divisors as well.
std::string Data(uint64_t bytes) {
  std::string data;
  while (data.size() < bytes) data += GgufBuilder::Float(1);
  return data;
}

std::string WriteFolder(const Files& files, const TemporaryFolder& folder) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const LogicalTensor& tensor : files.tensors) {
    uint64_t bytes = sizeof(float);
    for (const int64_t dim : tensor.dims) bytes *= static_cast<uint64_t>(dim);
    header[tensor.hub] = {
        {"dtype", "F32"}, {"shape", tensor.dims}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  const std::string text = header.dump();
  folder.Write("model.safetensors", GgufBuilder::Little(text.size(), 8) + text + Data(offset));
  folder.Write("config.json", files.keys.dump());
  return folder.path();
}

std::string WriteGguf(const Files& files, const TemporaryFolder& folder) {
  GgufBuilder builder;
  for (const auto& [key, value] : files.keys.items()) {
    if (value.is_string()) {
      builder.Text(key, value);
    } else if (value.is_number_float()) {
      builder.Real(key, value);
    } else {
      builder.Number(key, value);
    }
  }
  uint64_t offset = 0;
  for (const LogicalTensor& tensor : files.tensors) {
    builder.Tensor(tensor.gguf, {tensor.dims.rbegin(), tensor.dims.rend()}, 0, offset);
    offset += BytesOf(tensor);
  }
  return folder.Write("model.gguf", builder.Finish(0) + Data(offset));
}

// Opened and compiled; the config of what could be opened.
struct Outcome {
  absl::Status status;
  ModelConfig config;
};
Outcome Open(const Files& files) {
  const TemporaryFolder folder;
  const auto checkpoint =
      Checkpoint::Open(files.gguf ? WriteGguf(files, folder) : WriteFolder(files, folder));
  if (!checkpoint.ok()) return {checkpoint.status(), {}};
  CompileOptions options;
  options.name = "kvcache";
  options.context = 16;
  options.weights = WeightFormat::kF32;
  return {Compile(**checkpoint, options).status(), (*checkpoint)->config()};
}

void ExpectRefused(const absl::Status& status, const std::string& name) {
  EXPECT_FALSE(status.ok()) << "accepted: " << name;
  EXPECT_THAT(std::string(status.message()), HasSubstr(name));
}

class NetworkFilesTest : public ::testing::TestWithParam<NamedShape> {
 protected:
  static Files MakeFiles(const CheckpointShape& shape) {
    const MadeUpNetwork network(shape);
    Files files = {shape.format == CheckpointFormat::kGgufF32, Json(), {}};
    files.keys = files.gguf ? network.Metadata() : network.Config();
    if (!files.gguf) files.keys["torch_dtype"] = "float32";
    files.tensors = network.Tensors();
    std::erase_if(files.tensors,
                  [&](const LogicalTensor& tensor) { return !files.gguf && tensor.divisors; });
    return files;
  }
  const Files files_ = MakeFiles(GetParam().shape);
};

TEST_P(NetworkFilesTest, AreAcceptedAsTheyAre) { EXPECT_EQ(Open(files_).status, absl::OkStatus()); }

// What is no longer said is missed by name, or has the value that it has by default, or changes nothing that is computed.
TEST_P(NetworkFilesTest, AKeyThatIsTakenAwayIsMissedOrHasADefault) {
  std::set<std::string> needed;
  for (const auto& [key, value] : files_.keys.items()) {
    Files files = files_;
    files.keys.erase(key);
    const Outcome without = Open(files);
    if (without.status.ok()) continue;
    needed.insert(key);
    // A head's size and number may be missed by the weight that does not fit what follows without it.
    const bool of_heads = key.find("head") != std::string::npos ||
                          key.find("key_length") != std::string::npos ||
                          key.find("tie_word") != std::string::npos;
    const bool by_weight = of_heads && (absl::StrContains(without.status.message(), "tensor") ||
                                        absl::StrContains(without.status.message(), "head size"));
    if (!by_weight) ExpectRefused(without.status, key);
  }
  const std::string prefix =
      files_.gguf ? files_.keys["general.architecture"].get<std::string>() + "." : "";
  const std::vector<const char*> of_gguf = {
      "block_count",         "context_length",       "embedding_length",
      "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon"};
  const std::vector<const char*> of_config = {
      "model_type",        "vocab_size",          "hidden_size",  "intermediate_size",
      "num_hidden_layers", "num_attention_heads", "rms_norm_eps", "max_position_embeddings"};
  for (const char* key : files_.gguf ? of_gguf : of_config) {
    EXPECT_EQ(needed.count(prefix + key), 1u) << key;
  }
}

TEST_P(NetworkFilesTest, AKeyByAnotherNameIsRefusedByThatName) {
  for (const auto& [key, value] : files_.keys.items()) {
    if (key == "general.architecture" || key == "model_type")
      continue;                                              // decide which names there are
    if (key == "general.name" || value.is_null()) continue;  // which say nothing
    Files files = files_;
    files.keys.erase(key);
    files.keys[key + "_2"] = value;
    ExpectRefused(Open(files).status, key);  // which the new name begins with
  }
}

// Nothing is taken for what is not there because it is said in another way.
TEST_P(NetworkFilesTest, ANumberThatIsATextIsRefusedByName) {
  const bool stretched = GetParam().shape.original_context > 0;
  for (const auto& [key, value] : files_.keys.items()) {
    if (!value.is_number() || key == "max_window_layers" || key.ends_with("_pdrop")) continue;
    if (key.find("original") != std::string::npos && !stretched) continue;  // says nothing then
    Files files = files_;
    files.keys[key] = "many";
    ExpectRefused(Open(files).status, key);
  }
}

TEST_P(NetworkFilesTest, AKeyMoreIsRefusedByName) {
  for (const std::string key :
       {"attn_logit_softcapping", "num_local_experts", "layer_norm", "rope_sections"}) {
    Files files = files_;
    const std::string name =
        files.gguf ? absl::StrCat(files.keys["general.architecture"].get<std::string>(), ".", key)
                   : key;
    files.keys[name] = 3;
    ExpectRefused(Open(files).status, name);
  }
}

// Of divisors of rotary frequencies there is nothing that misses them: they are used where they are.
TEST_P(NetworkFilesTest, ATensorThatIsTakenAwayIsMissedByName) {
  for (size_t i = 0; i < files_.tensors.size(); ++i) {
    Files files = files_;
    const LogicalTensor gone = files.tensors[i];
    files.tensors.erase(files.tensors.begin() + static_cast<ptrdiff_t>(i));
    const Outcome without = Open(files);
    if (gone.divisors) {
      EXPECT_EQ(without.status, absl::OkStatus());
    } else if (files.gguf && gone.gguf == "output.weight") {
      EXPECT_TRUE(without.config.tied_embeddings);  // the embedding serves as head
    } else if (files.gguf && gone.gguf == "token_embd.weight") {
      // Its rows are the vocabulary, where no key says how large that is.
      ExpectRefused(without.status, files.keys.contains("llama.vocab_size") ? gone.hub : gone.gguf);
    } else {
      ExpectRefused(without.status, gone.hub);
    }
  }
}

TEST_P(NetworkFilesTest, ATensorByAnotherNameIsRefusedByThatName) {
  for (size_t i = 0; i < files_.tensors.size(); ++i) {
    Files files = files_;
    std::string& name = files.gguf ? files.tensors[i].gguf : files.tensors[i].hub;
    name += "2";
    // By its old one where the vocabulary's size is taken from it.
    const bool table = files.gguf && absl::StartsWith(name, "token_embd");
    ExpectRefused(Open(files).status, table ? "token_embd.weight" : name);
  }
}

TEST_P(NetworkFilesTest, ATensorMoreIsRefusedByName) {
  const char* hub[] = {"model.layers.0.mlp.experts.0.up_proj.weight",
                       "model.layers.0.self_attn.sinks",
                       "model.layers.0.post_feedforward_layernorm.weight",
                       "model.layers.0.self_attn.o_proj.bias",
                       "score.weight",
                       "model.layers.3.input_layernorm.weight"};
  const char* gguf[] = {"blk.0.ffn_gate_exps.weight",
                        "blk.0.attn_sinks.weight",
                        "blk.0.post_ffw_norm.weight",
                        "blk.0.attn_output.bias",
                        "cls.weight",
                        "blk.3.attn_norm.weight"};
  for (size_t i = 0; i < std::size(hub); ++i) {
    Files files = files_;
    files.tensors.push_back({hub[i], gguf[i], {16}});
    ExpectRefused(Open(files).status, files.gguf ? gguf[i] : hub[i]);
  }
}

// What makes one network another is known by each to be none of its own.
TEST_P(NetworkFilesTest, ATensorOfAnotherNetworkIsRefusedByName) {
  std::set<std::string> own;
  for (const LogicalTensor& tensor : files_.tensors) own.insert(files_.NameOf(tensor));
  for (const auto& other : NetworkShapes({{"", GetParam().shape}})) {
    CheckpointShape shape = other.shape;
    shape.original_context = 0;
    for (const LogicalTensor& tensor : MadeUpNetwork(shape).Tensors()) {
      if (own.count(files_.NameOf(tensor)) != 0 || tensor.hub == "lm_head.weight") continue;
      Files files = files_;
      files.tensors.push_back(tensor);
      ExpectRefused(Open(files).status, files.NameOf(tensor));
    }
  }
}

std::vector<NamedShape> SmallShapes() {
  std::vector<NamedShape> all =
      NetworkShapes({{"folder", {.format = CheckpointFormat::kSafetensors}},
                     {"gguf", {.format = CheckpointFormat::kGgufF32}}});
  for (NamedShape& named : all) {
    named.shape.layers = 1;
    named.shape.hidden = 16;
    named.shape.intermediate = 24;
    named.shape.vocab = 32;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, NetworkFilesTest, ::testing::ValuesIn(SmallShapes()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace npubank

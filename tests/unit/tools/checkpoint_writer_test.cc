#include "npubank/tools/checkpoints/checkpoint_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/formats/safetensors.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

CheckpointShape Tiny() {
  return {.layers = 2,
          .hidden = 64,
          .heads = 4,
          .kv_heads = 2,
          .intermediate = 96,
          .vocab = 300,
          .context = 32};
}

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<float> Values(const Checkpoint& checkpoint, const std::string& name) {
  auto stored = checkpoint.Tensor(name);
  EXPECT_TRUE(stored.ok()) << stored.status();
  const auto floats = stored->Convert(ElementType::kF32);
  EXPECT_TRUE(floats.ok()) << floats.status();
  std::vector<float> values(floats->type().num_elements());
  const absl::Status status = floats->EvaluateInto(
      absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

TEST(CheckpointWriterTest, WhatIsWrittenOpensAsACheckpoint) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/model";
  ASSERT_TRUE(WriteCheckpoint(Tiny(), path).ok());
  const auto checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.context_length, 32);
  const auto type = [&](const std::string& name) {
    const auto found = (*checkpoint)->Tensor(name);
    return found.ok() ? found->type().ToString() : std::string(found.status().message());
  };
  EXPECT_EQ(type("model.embed_tokens.weight"), "BF16[300,64]");
  EXPECT_EQ(type("model.layers.1.input_layernorm.weight"), "BF16[64]");
  EXPECT_EQ(type("model.layers.1.self_attn.q_proj.weight"), "BF16[64,64]");
  EXPECT_EQ(type("model.layers.1.self_attn.k_proj.weight"), "BF16[32,64]");
  EXPECT_EQ(type("model.layers.1.self_attn.v_proj.weight"), "BF16[32,64]");
  EXPECT_EQ(type("model.layers.1.self_attn.o_proj.weight"), "BF16[64,64]");
  EXPECT_EQ(type("model.layers.1.post_attention_layernorm.weight"), "BF16[64]");
  EXPECT_EQ(type("model.layers.1.mlp.gate_proj.weight"), "BF16[96,64]");
  EXPECT_EQ(type("model.layers.1.mlp.up_proj.weight"), "BF16[96,64]");
  EXPECT_EQ(type("model.layers.1.mlp.down_proj.weight"), "BF16[64,96]");
  EXPECT_EQ(type("model.norm.weight"), "BF16[64]");
  EXPECT_EQ(type("lm_head.weight"), "BF16[300,64]");
  EXPECT_FALSE((*checkpoint)->Contains("model.layers.2.input_layernorm.weight"));
}

TEST(CheckpointWriterTest, TheSameSeedGivesTheSameBytesAndAnotherOthers) {
  const TemporaryFolder folder;
  CheckpointShape shape = Tiny();
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path() + "/a").ok());
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path() + "/b").ok());
  shape.seed = 2;
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path() + "/c").ok());
  const std::string a = FileBytes(folder.path() + "/a/model.safetensors");
  EXPECT_FALSE(a.empty());
  EXPECT_EQ(a, FileBytes(folder.path() + "/b/model.safetensors"));
  EXPECT_NE(a, FileBytes(folder.path() + "/c/model.safetensors"));
}

TEST(CheckpointWriterTest, WeightsSpreadAroundZeroAndNormsAroundOne) {
  const TemporaryFolder folder;
  CheckpointShape shape = Tiny();
  shape.element = ElementType::kF32;
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path()).ok());
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  auto moments = [](const std::vector<float>& values) {
    double sum = 0, squares = 0;
    for (const float value : values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const double mean = sum / static_cast<double>(values.size());
    return std::pair(mean, std::sqrt(squares / static_cast<double>(values.size()) - mean * mean));
  };
  const auto [mean, deviation] = moments(Values(**checkpoint, "model.embed_tokens.weight"));
  EXPECT_NEAR(mean, 0, 1e-3);
  EXPECT_NEAR(deviation, 0.02, 1e-3);
  const auto [norm, spread] =
      moments(Values(**checkpoint, "model.layers.0.input_layernorm.weight"));
  EXPECT_NEAR(norm, 1, 0.02);
  EXPECT_NEAR(spread, 0.02, 0.01);
  // Each tensor has numbers of its own.
  EXPECT_NE(Values(**checkpoint, "model.layers.0.mlp.up_proj.weight"),
            Values(**checkpoint, "model.layers.1.mlp.up_proj.weight"));
}

TEST(CheckpointWriterTest, ATiedModelHasNoHead) {
  const TemporaryFolder folder;
  CheckpointShape shape = Tiny();
  shape.tied = true;
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path()).ok());
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE((*checkpoint)->config().tied_embeddings);
  EXPECT_FALSE((*checkpoint)->Contains("lm_head.weight"));
}

std::vector<TensorEntry> Entries(const std::string& folder) {
  const auto source = Source::OpenFile(folder + "/model.safetensors");
  EXPECT_TRUE(source.ok());
  const auto entries = ReadSafetensors(**source);
  EXPECT_TRUE(entries.ok()) << entries.status();
  uint64_t expected = entries->front().offset;
  for (const TensorEntry& entry : *entries) {
    EXPECT_EQ(entry.offset, expected) << entry.name << " leaves no gap";
    expected += entry.type.bytes();
  }
  EXPECT_EQ(expected, (*source)->size());
  return *entries;
}

// As the library of that name writes them: the header is padded to 8 bytes and no more, larger elements come
// first, names in the order of their letters.
TEST(CheckpointWriterTest, SafetensorsAreLaidOutAsOthersLayThemOut) {
  const TemporaryFolder folder;
  std::set<uint64_t> residues;
  for (int64_t vocab = 300; vocab < 300 + 10'000'000; vocab = 10 * vocab + 7) {
    CheckpointShape shape = Tiny();
    shape.vocab = std::min<int64_t>(vocab, 50'000);
    shape.layers = 1 + vocab % 3;
    ASSERT_TRUE(WriteCheckpoint(shape, folder.path()).ok());
    const auto entries = Entries(folder.path());
    EXPECT_EQ(entries.front().offset % 8, 0u);
    residues.insert(entries.front().offset % 64);
    EXPECT_EQ(entries.front().name, "lm_head.weight");
    EXPECT_EQ(entries[1].name, "model.embed_tokens.weight");
    EXPECT_EQ(entries.back().name, "model.norm.weight");
  }
  EXPECT_GT(residues.size(), 1u) << "the header's length decides";
}

TEST(CheckpointWriterTest, ShardsHoldTheTensorsOfTheWhole) {
  const TemporaryFolder folder;
  CheckpointShape shape = Tiny();
  shape.layers = 3;
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path() + "/whole").ok());
  shape.shards = 3;
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path() + "/shards").ok());
  const auto whole = Checkpoint::Open(folder.path() + "/whole");
  const auto shards = Checkpoint::Open(folder.path() + "/shards");
  ASSERT_TRUE(whole.ok() && shards.ok()) << shards.status();
  EXPECT_EQ((*shards)->index()->file_count(), 3u);
  ASSERT_EQ((*shards)->index()->tensors().size(), (*whole)->index()->tensors().size());
  for (const StoredTensor& tensor : (*whole)->index()->tensors()) {
    EXPECT_EQ(Values(**shards, tensor.name), Values(**whole, tensor.name)) << tensor.name;
  }
}

TEST(CheckpointWriterTest, PaddedDataStartsOnACacheLine) {
  const TemporaryFolder folder;
  CheckpointShape shape = Tiny();
  shape.padded = true;
  ASSERT_TRUE(WriteCheckpoint(shape, folder.path()).ok());
  EXPECT_EQ(Entries(folder.path()).front().offset % 64, 0u);
}

TEST(CheckpointWriterTest, QuantizedModelsHaveTheirFormatsTensors) {
  const TemporaryFolder folder;
  CheckpointShape shape = Tiny();
  shape.hidden = 256;
  shape.intermediate = 512;
  const auto form = [&](CheckpointFormat format, const char* name) {
    shape.format = format;
    const auto path = WriteCheckpoint(shape, folder.path() + "/" + std::to_string(static_cast<int>(format)));
    EXPECT_TRUE(path.ok()) << path.status();
    const auto model = Checkpoint::Open(*path);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return std::string();
    const auto stored = (*model)->Stored(name);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return stored.ok() ? stored->form.ToString() + " " + stored->parts[0].type().ToString() : "";
  };
  const char* const kDown = "model.layers.0.mlp.down_proj.weight";
  EXPECT_EQ(form(CheckpointFormat::kGptq, kDown), "GPTQ words I32[64,256]");
  EXPECT_EQ(form(CheckpointFormat::kGptqActOrder, kDown), "GPTQ words in listed groups I32[64,256]");
  EXPECT_EQ(form(CheckpointFormat::kGptq8, kDown), "GPTQ words of bytes I32[128,256]");
  EXPECT_EQ(form(CheckpointFormat::kAwq, kDown), "AWQ words I32[512,32]");
  EXPECT_EQ(form(CheckpointFormat::kAwq, "lm_head.weight"), "plain F16[300,256]");
  EXPECT_EQ(form(CheckpointFormat::kInt8, kDown), "planes I8[256,512]");
  EXPECT_EQ(form(CheckpointFormat::kInt8, "lm_head.weight"), "plain BF16[300,256]");
  EXPECT_EQ(form(CheckpointFormat::kPackInt8, kDown), "rows of 8-bit words I32[256,128]");
  EXPECT_EQ(form(CheckpointFormat::kPackInt4, kDown), "rows of 4-bit words I32[256,64]");
  EXPECT_EQ(form(CheckpointFormat::kGgufQ4_0, kDown), "Q4_0 blocks U8[256,288]");
  EXPECT_EQ(form(CheckpointFormat::kGgufQ8_0, kDown), "Q8_0 blocks U8[256,544]");
  EXPECT_EQ(form(CheckpointFormat::kGgufQ6_K, kDown), "Q6_K blocks U8[256,420]");
  EXPECT_EQ(form(CheckpointFormat::kGgufQ4_K, "lm_head.weight"), "Q6_K blocks U8[300,210]");
  EXPECT_EQ(form(CheckpointFormat::kGgufQ4_K, "model.embed_tokens.weight"),
            "Q4_K blocks U8[300,144]");
  EXPECT_EQ(form(CheckpointFormat::kGgufQ4_K, "model.norm.weight"), "plain F32[256]");
}

// Whatever the format, a layer's numbers spread as those of the plain model do.
TEST(CheckpointWriterTest, QuantizedNumbersSpreadAroundZero) {
  const TemporaryFolder folder;
  for (const CheckpointFormat format :
       {CheckpointFormat::kGptq, CheckpointFormat::kAwq, CheckpointFormat::kInt8,
        CheckpointFormat::kPackInt8, CheckpointFormat::kPackInt4, CheckpointFormat::kGgufQ4_0,
        CheckpointFormat::kGgufQ4_K, CheckpointFormat::kGgufQ6_K, CheckpointFormat::kGgufQ8_0}) {
    CheckpointShape shape = Tiny();
    shape.hidden = 256;
    shape.intermediate = 512;
    shape.format = format;
    const auto path = WriteCheckpoint(shape, folder.path() + "/" + std::to_string(static_cast<int>(format)));
    ASSERT_TRUE(path.ok()) << path.status();
    const auto model = Checkpoint::Open(*path);
    ASSERT_TRUE(model.ok()) << model.status();
    const std::vector<float> values = Values(**model, "model.layers.1.self_attn.q_proj.weight");
    double sum = 0, squares = 0;
    for (const float value : values) sum += value, squares += static_cast<double>(value) * value;
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 3e-3) << static_cast<int>(format);
    EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.01) << static_cast<int>(format);
  }
}

TEST(CheckpointWriterTest, TheDefaultModelHasAbout110MParameters) {
  const auto count = CountParameters(CheckpointShape());
  ASSERT_TRUE(count.ok());
  EXPECT_GT(*count, 100e6);
  EXPECT_LT(*count, 130e6);
}

TEST(CheckpointWriterTest, ImpossibleShapesAndFoldersAreRefused) {
  const TemporaryFolder folder;
  auto code = [&](auto change) {
    CheckpointShape shape = Tiny();
    change(shape);
    return WriteCheckpoint(shape, folder.path()).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](auto& s) { s.layers = 0; }), kInvalid);
  EXPECT_EQ(code([](auto& s) { s.heads = 5; }), kInvalid);
  EXPECT_EQ(code([](auto& s) { s.heads = 64; }), kInvalid);  // odd head size
  EXPECT_EQ(code([](auto& s) { s.kv_heads = 3; }), kInvalid);
  EXPECT_EQ(code([](auto& s) { s.vocab = int64_t{1} << 62; }), kInvalid);
  EXPECT_EQ(code([](auto& s) { s.element = ElementType::kI8; }), kInvalid);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(WriteCheckpoint(Tiny(), folder.path() + "/no/such").status().code(),
            absl::StatusCode::kNotFound);
  folder.Write("file", "");
  EXPECT_FALSE(WriteCheckpoint(Tiny(), folder.path() + "/file").ok());
}

TEST(CheckpointWriterTest, NoTemporaryFileStaysBehind) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteCheckpoint(Tiny(), folder.path()).ok());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("config.json", "model.safetensors"));
}

}  // namespace
}  // namespace npubank

#include "npubank/lazy_tensor/formats/checkpoint.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/unit/formats/stored_bytes.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr char kNorm[] = "model.norm.weight";
constexpr char kHead[] = "lm_head.weight";
constexpr char kConfig[] =
    R"({"model_type":"llama","vocab_size":512,"hidden_size":64,"intermediate_size":172,
        "num_hidden_layers":5,"num_attention_heads":8,"rms_norm_eps":1e-5,
        "max_position_embeddings":256})";

std::string OneTensor(const std::string& name, char fill) {
  const std::string header =
      absl::StrCat("{\"", name, "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}");
  return LittleEndian64(header.size()) + header + std::string(4, fill);
}

void ExpectRefused(const TemporaryFolder& folder, absl::StatusCode code, const std::string& why) {
  const auto result = Checkpoint::Open(folder.path());
  ASSERT_FALSE(result.ok()) << "accepted, but should say: " << why;
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(why));
  EXPECT_EQ(result.status().message().find('\n'), absl::string_view::npos) << "one line";
}

TEST(CheckpointTest, ATensorIsAConstantOverItsFile) {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  folder.Write("model.safetensors", OneTensor(kNorm, 'w'));
  for (const FileAccess access : {FileAccess::kMap, FileAccess::kRead}) {
    const auto checkpoint = Checkpoint::Open(folder.path(), access);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ((*checkpoint)->config().hidden_size, 64);
    EXPECT_TRUE((*checkpoint)->Contains(kNorm));
    EXPECT_FALSE((*checkpoint)->Contains(kHead));
    const auto tensor = (*checkpoint)->Tensor(kNorm);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->type().ToString(), "U8[4]");
    EXPECT_EQ(StoredBytes(*tensor), "wwww");
  }
}

TEST(CheckpointTest, ARecipeOutlivesItsCheckpointAndNothingElseHoldsTheSource) {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  folder.Write("model.safetensors", OneTensor(kNorm, 'w'));
  std::optional<LazyTensor> tensor;
  {
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    tensor = *(*checkpoint)->Tensor(kNorm);
  }
  EXPECT_EQ(LiveSourceBytes(), 4u);
  EXPECT_EQ(StoredBytes(*tensor), "wwww");
  tensor.reset();
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

TEST(CheckpointTest, AMissingTensorIsNamedWithItsFile) {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  folder.Write("model.safetensors", OneTensor(kNorm, 'w'));
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto missing = (*checkpoint)->Tensor(kHead);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("'lm_head.weight'"));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("model.safetensors"));
}

TEST(CheckpointTest, AMissingFolderIsOneClearLine) {
  const auto result = Checkpoint::Open("/nonexistent/model");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(result.status().message()), "model '/nonexistent/model' does not exist");
}

TEST(CheckpointTest, IncompleteFoldersAreRefused) {
  const TemporaryFolder folder;
  ExpectRefused(folder, absl::StatusCode::kNotFound, "config.json");
  folder.Write("config.json", kConfig);
  ExpectRefused(folder, absl::StatusCode::kNotFound, "neither model.safetensors nor");
  folder.Write("model.safetensors", "");
  ExpectRefused(folder, absl::StatusCode::kInvalidArgument, "model.safetensors: truncated");
}

TEST(CheckpointTest, ShardsAreOneSetOfTensors) {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  folder.Write("one.safetensors", OneTensor(kNorm, 'a'));
  folder.Write("two.safetensors", OneTensor(kHead, 'b'));
  folder.Write(
      "model.safetensors.index.json",
      R"({"weight_map":{"model.norm.weight":"one.safetensors","lm_head.weight":"two.safetensors"}})");
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(StoredBytes(*(*checkpoint)->Tensor(kNorm)), "aaaa");
  EXPECT_EQ(StoredBytes(*(*checkpoint)->Tensor(kHead)), "bbbb");
}

TEST(CheckpointTest, ABadIndexIsRefused) {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  folder.Write("one.safetensors", OneTensor(kNorm, 'a'));
  folder.Write("two.safetensors", OneTensor(kHead, 'b'));
  folder.Write("twin.safetensors", OneTensor(kNorm, 'c'));
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  auto index = [&](const std::string& text) { folder.Write("model.safetensors.index.json", text); };
  index(
      R"({"weight_map":{"model.norm.weight":"one.safetensors","model.embed_tokens.weight":"one.safetensors"}})");
  ExpectRefused(folder, kInvalid, "maps tensor 'model.embed_tokens.weight'");
  index(
      R"({"weight_map":{"model.norm.weight":"two.safetensors","lm_head.weight":"one.safetensors"}})");
  ExpectRefused(folder, kInvalid, "maps tensor 'lm_head.weight'");
  index(
      R"({"weight_map":{"model.norm.weight":"one.safetensors","lm_head.weight":"twin.safetensors"}})");
  ExpectRefused(folder, kInvalid, "'model.norm.weight' is in both");
  index(R"({"weight_map":{"model.norm.weight":"gone.safetensors"}})");
  ExpectRefused(folder, absl::StatusCode::kNotFound, "gone.safetensors");
  index(R"({"weight_map":{"model.norm.weight":5}})");
  ExpectRefused(folder, kInvalid, "plain name");
  index(R"({"weight_map":[]})");
  ExpectRefused(folder, kInvalid, "weight_map");
  index(R"([])");
  ExpectRefused(folder, kInvalid, "weight_map");
}

TEST(CheckpointTest, AnIndexCannotPointOutOfItsFolder) {
  const TemporaryFolder folder;
  folder.Write("config.json", kConfig);
  for (const char* shard :
       {"../one.safetensors", "/etc/passwd", "a/b", ".", "..", "", "a\\u0000b"}) {
    folder.Write("model.safetensors.index.json",
                 absl::StrCat("{\"weight_map\":{\"model.norm.weight\":\"", shard, "\"}}"));
    ExpectRefused(folder, absl::StatusCode::kInvalidArgument, "plain name");
  }
}

TEST(CheckpointTest, TheShardedModelHasTheTensorsOfTheSingleFile) {
  const TemporaryFolder shards;
  WriteShardedStories(shards.path());
  const auto whole = Checkpoint::Open(StoriesFolder());
  const auto sharded = Checkpoint::Open(shards.path());
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_EQ((*whole)->config().num_kv_heads, 4);
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "model.layers.4.mlp.down_proj.weight"}) {
    const auto a = (*whole)->Tensor(name);
    const auto b = (*sharded)->Tensor(name);
    ASSERT_TRUE(a.ok() && b.ok()) << name;
    EXPECT_EQ(StoredBytes(*a), StoredBytes(*b)) << name;
  }
}

}  // namespace
}  // namespace npubank

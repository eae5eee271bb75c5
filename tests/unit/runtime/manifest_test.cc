// Manifests as other compilers write them: what is understood, and that everything else is refused
// by file and place.
#include "npubank/runtime/manifest/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/foreign_npu/foreign_submodel.h"
#include "npubank/tests/support/manifest_writer.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/constants_index.h"
#include "npubank/tests/support/weights/random_recipe.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class ManifestTest : public ::testing::Test {
 protected:
  // Refused with these words, and the file's path.
  void ExpectRefused(const std::string& words, const std::function<void(Json&)>& change) {
    SCOPED_TRACE(words);
    Json manifest = submodel_.manifest();
    change(manifest);
    submodel_.Rewrite(manifest);
    const absl::Status status = ReadManifest(submodel_.path()).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), HasSubstr("layers.json"));
    EXPECT_EQ(LiveSourceBytes(), 0u);
  }
  // The same of a weight's tensor.
  void ExpectWordsRefused(const std::string& words, const Json& tensor) {
    ExpectRefused(words, [&](Json& m) { m["weights"][0]["tensor"] = tensor; });
  }

  TemporaryFolder folder_;
  ForeignSubmodel submodel_{folder_.path()};
};

TEST_F(ManifestTest, SaysFunctionsCallsAndWhatEachArgumentIs) {
  const auto read = ReadManifest(submodel_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "layers");
  ASSERT_EQ(read->functions.size(), 1u);
  EXPECT_EQ(read->functions[0].blob, submodel_.blob());
  ASSERT_EQ(read->calls.size(), 5u);
  EXPECT_EQ(read->arena_bytes, 128u);
  const SubmodelDescription::Call& call = read->calls[2];
  EXPECT_EQ(call.arguments[1].name, "weight");
  EXPECT_TRUE(call.arguments[1].weight);
  EXPECT_EQ(read->weights[call.arguments[1].index], "w2");
  EXPECT_EQ(read->TypeOf(call.arguments[2]).ToString(), "F32[1,16]");
  EXPECT_EQ(read->values[call.arguments[3].index].placement,
            SubmodelDescription::Placement::kArena);
}

// The manual's own example, out of manifest.h.
TEST_F(ManifestTest, TheExampleOfTheManualIsRead) {
  std::ifstream header(NPUBANK_SOURCE_DIR "/runtime/manifest/manifest.h");
  std::string example;
  for (std::string text; std::getline(header, text);) {
    absl::string_view line = text;
    if (!absl::ConsumePrefix(&line, "//   ")) continue;
    if (line == "{" || !example.empty()) absl::StrAppend(&example, line);
    if (line == "}") break;
  }
  auto index = std::make_shared<SourceIndex>("a model");
  const auto buffer = Source::FromBuffer(std::vector<std::byte>(64 * 64 * 4), "buffer");
  const uint32_t file = index->AddFile(SourceOpener::Held(buffer)).value();
  const auto type = TensorType::Create(ElementType::kF32, Shape::Create({64, 64}).value()).value();
  for (const char* name : {"layers.0.weight", "layers.1.weight"})
    ASSERT_TRUE(index->Add({name, type, file, 0}).ok());
  const auto read =
      ParseManifest(example, "manifest.h", index, [](const std::string& name) { return name; });
  ASSERT_TRUE(read.ok()) << read.status() << example;
  EXPECT_EQ(read->functions[0].blob, "layer.blob");
  EXPECT_EQ(read->recipes->type(1).ToString(), "F16[64,64]");
}

TEST_F(ManifestTest, HoldsNoFileOfTheModelAndNamesTheSameWeightsAsAnyOtherReader) {
  const auto read = ReadManifest(submodel_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(LiveSourceBytes(), 0u);
  const auto again = ReadManifest(submodel_.path());
  ASSERT_TRUE(again.ok()) << again.status();
  for (size_t i = 0; i < read->weights.size(); ++i)
    EXPECT_EQ(read->recipes->digest(i), again->recipes->digest(i));
}

// Every operation there is, in random chains: the words of a recipe make the same recipe.
TEST_F(ManifestTest, WordsOfARandomRecipeMakeThatRecipe) {
  const uint64_t seed = PrintedSeed();
  const int rounds = Repetitions(1500);
  int tried = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    testing::RandomRecipes random(seed + static_cast<uint64_t>(round));
    const RecipePtr recipe = random.Make(6);
    const Json words = WordsOf(*recipe);
    if (words.dump().size() > 20000) continue;  // deeper than a manifest goes
    Json manifest = submodel_.manifest();
    manifest["weights"][0]["tensor"] = words;
    const Json only = manifest["weights"][0];
    manifest["weights"] = Json::array({only});
    for (Json& call : manifest["calls"])
      for (size_t i : {1, 2}) call["arguments"][i] = {{"name", "w"}, {"weight", "w0"}};
    const auto read = ParseManifest(manifest.dump(), "layers.json", ConstantsIndex({recipe}),
                                    [](const std::string&) { return "blob"; });
    ASSERT_TRUE(read.ok()) << read.status() << words;
    EXPECT_EQ(read->recipes->digest(0), recipe->digest()) << words;
    EXPECT_EQ(read->recipes->type(0), recipe->type());
    ++tried;
  }
  EXPECT_GT(tried, rounds / 2);
}

TEST_F(ManifestTest, WhatIsNotUnderstoodIsRefusedByPlace) {
  ExpectRefused("'npubank_manifest' must be a whole number from 1 to 1",
                [](Json& m) { m["npubank_manifest"] = 2; });
  ExpectRefused("'npubank_manifest' is missing", [](Json& m) { m.erase("npubank_manifest"); });
  ExpectRefused("'colour' is not known", [](Json& m) { m["colour"] = "red"; });
  ExpectRefused("'name' is missing", [](Json& m) { m.erase("name"); });
  ExpectRefused("'name' 'a\\nb' must have", [](Json& m) { m["name"] = "a\nb"; });
  ExpectRefused("'name' must be a string", [](Json& m) { m["name"] = 7; });
  ExpectRefused("a manifest is an object", [](Json& m) { m = Json::array(); });
  ExpectRefused("'functions' is missing", [](Json& m) { m.erase("functions"); });
  ExpectRefused("'functions' must be a list", [](Json& m) { m["functions"] = "all"; });
  ExpectRefused("function 0: must be an object", [](Json& m) { m["functions"][0] = 1; });
  ExpectRefused("function 'layer': 'speed' is not known",
                [](Json& m) { m["functions"][0]["speed"] = 1; });
  ExpectRefused("function 'layer' is there twice",
                [](Json& m) { m["functions"].push_back(m["functions"][0]); });
  ExpectRefused("call 'first' is there twice", [](Json& m) {
    for (Json& call : m["calls"]) call["name"] = "first";
  });
  ExpectRefused("value 'x': 'place' 'moon' is not one of input, output, state, arena, scratch",
                [](Json& m) { m["values"][0]["place"] = "moon"; });
  ExpectRefused("value 'x': 'offset' is for values in the arena",
                [](Json& m) { m["values"][0]["offset"] = 0; });
  ExpectRefused("value 'h0': 'offset' is missing", [](Json& m) { m["values"][2].erase("offset"); });
  ExpectRefused("value 'h0': 'offset' must be a whole number",
                [](Json& m) { m["values"][2]["offset"] = -64; });
  ExpectRefused("value 'h0' of 64 bytes cannot lie at offset 128 of an arena of 128",
                [](Json& m) { m["values"][2]["offset"] = 128; });
  ExpectRefused("value 'h0' of 64 bytes cannot lie at offset 32",
                [](Json& m) { m["values"][2]["offset"] = 32; });
  ExpectRefused("value 'x': 'type' 'F31' is no element type",
                [](Json& m) { m["values"][0]["type"] = "F31"; });
  ExpectRefused("value 'x': 'dims' must be a list", [](Json& m) { m["values"][0]["dims"] = 16; });
  ExpectRefused("value 'x': 'dims' must be a whole number", [](Json& m) {
    m["values"][0]["dims"] = {1, -16};
  });
  ExpectRefused("value 'x' is empty", [](Json& m) { m["values"][0]["dims"] = {1, 0}; });
  ExpectRefused("value 'x': ", [](Json& m) {
    m["values"][0]["dims"] = {int64_t{1} << 62, int64_t{1} << 62};
  });
  ExpectRefused("'arena_bytes' must be a whole number", [](Json& m) { m["arena_bytes"] = 1e30; });
  ExpectRefused("call 'layer 0': there is no function 'layers'",
                [](Json& m) { m["calls"][0]["function"] = "layers"; });
  ExpectRefused("call 'layer 0', argument 'weight': there is no weight 'w7'",
                [](Json& m) { m["calls"][0]["arguments"][1]["weight"] = "w7"; });
  ExpectRefused("call 'layer 0', argument 'x': there is no value 'z'",
                [](Json& m) { m["calls"][0]["arguments"][0]["value"] = "z"; });
  ExpectRefused("call 'layer 0', argument 'x': 'value' or 'weight' must be there, and one of them",
                [](Json& m) { m["calls"][0]["arguments"][0]["weight"] = "w0"; });
  ExpectRefused("weight 'w0': 'alignment' 96 is no power of two",
                [](Json& m) { m["weights"][0]["alignment"] = 96; });
  for (const Json& alignment : {Json(0), Json(-64), Json(1e30), Json("page"), Json::array()})
    ExpectRefused("weight 'w0': 'alignment' must be a whole number",
                  [&](Json& m) { m["weights"][0]["alignment"] = alignment; });
  ExpectRefused("call 'layer 0': 'arguments' is missing",
                [](Json& m) { m["calls"][0].erase("arguments"); });
  ExpectRefused("weight 'extra' is used by no call", [](Json& m) {
    m["weights"].push_back({{"name", "extra"}, {"tensor", {"layers.0.bias"}}});
  });
  ExpectRefused("there is no model", [](Json& m) { m.erase("model"); });
}

TEST_F(ManifestTest, FilesLieBesideItAndNowhereElse) {
  for (const char* file : {"../layer.blob", "/etc/passwd", "..", ".", "a/b", ""}) {
    ExpectRefused("function 'layer': 'file'", [&](Json& m) { m["functions"][0]["file"] = file; });
    ExpectRefused("'model'", [&](Json& m) { m["model"] = file; });
  }
  ExpectRefused("function 'layer': ", [](Json& m) { m["functions"][0]["file"] = "none.blob"; });
  ExpectRefused("none.safetensors", [](Json& m) { m["model"] = "none.safetensors"; });
}

TEST_F(ManifestTest, WordsThatMakeNoTensorAreRefusedByStep) {
  ExpectWordsRefused("weight 'w0': a tensor is a list of steps", "layers.0.weight");
  ExpectWordsRefused("weight 'w0': a tensor is a list of steps", Json::array());
  ExpectWordsRefused("weight 'w0', step 0: ", Json::array({"layers.9.weight"}));
  ExpectWordsRefused("weight 'w0', step 0: a step is an object with one key", Json::array({7}));
  ExpectWordsRefused("weight 'w0', step 0: there is no 'convert' that can be done here",
                     Json::array({{{"convert", "F16"}}}));
  const auto after = [](Json step) { return Json::array({"layers.0.weight", std::move(step)}); };
  ExpectWordsRefused("step 1: a step is an object with one key", after("layers.0.bias"));
  ExpectWordsRefused("step 1: there is no 'fold'", after({{"fold", 1}}));
  ExpectWordsRefused("step 1: a step is an object with one key",
                     after({{"convert", "F16"}, {"shift", Json::object()}}));
  ExpectWordsRefused("step 1: 'convert' 'F17' is no element type", after({{"convert", "F17"}}));
  ExpectWordsRefused("step 1: 'permute' must be a list", after({{"permute", "T"}}));
  ExpectWordsRefused("step 1: permute: ", after({{"permute", {0, 0}}}));
  ExpectWordsRefused("step 1: permute: ", after({{"permute", {5, 6}}}));
  ExpectWordsRefused("step 1: reshape: ", after({{"reshape", {3, 3}}}));
  ExpectWordsRefused("step 1: slice takes an object", after({{"slice", {1, 2}}}));
  ExpectWordsRefused("step 1: slice: 'end' is not known",
                     after({{"slice", {{"start", {0, 0}}, {"size", {1, 1}}, {"end", {0, 0}}}}}));
  ExpectWordsRefused("step 1: slice: ", after({{"slice", {{"start", {0, 9}}, {"size", {1, 9}}}}}));
  ExpectWordsRefused("step 1: unpack: 'scale' is missing", after({{"unpack", {{"to", "F16"}}}}));
  ExpectWordsRefused("step 1: unpack: scale, step 0: ",
                     after({{"unpack", {{"to", "F16"}, {"scale", {"none"}}}}}));
  ExpectWordsRefused("step 1: gather: 'table' is missing", after({{"gather", Json::object()}}));
  ExpectWordsRefused("step 1: shift: ", after({{"shift", Json::object()}}));
  ExpectWordsRefused("step 1: 'unpack_nibbles' 'bees' is no layout",
                     after({{"unpack_nibbles", "bees"}}));
  ExpectWordsRefused("step 1: dequantize_blocks: 'format' 'Q9' is no format of blocks",
                     after({{"dequantize_blocks", {{"format", "Q9"}, {"to", "F16"}}}}));
  ExpectWordsRefused("step 1: copy_block_plane: 'plane' 'up' is no plane",
                     after({{"copy_block_plane", {{"format", "Q4_0"}, {"plane", "up"}}}}));
  ExpectWordsRefused("step 0: splat: 'bits' must be a whole number",
                     Json::array({{{"splat", {{"type", "F32"}, {"dims", {1}}, {"bits", -1}}}}}));
  ExpectWordsRefused(
      "step 0: concat: of 1, step 0: ",
      Json::array({{{"concat", {{"axis", 0}, {"of", {{"layers.0.weight"}, {"none"}}}}}}}));
}

TEST_F(ManifestTest, HostileTextsAreRefused) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("null"), std::string("\"x\""), deep,
        std::string("{\"name\":\"a\",\"name\":\"b\"}"), std::string("{}"), std::string("\0\1\2", 3),
        std::string("{\"npubank_manifest\":1e400}")}) {
    const auto read =
        ParseManifest(text, "layers.json", nullptr, [](const std::string&) { return "blob"; });
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 60);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("layers.json"));
  }
  const std::string whole = submodel_.manifest().dump();
  const auto index = std::make_shared<SourceIndex>("nothing");
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7)
    EXPECT_FALSE(
        ParseManifest(whole.substr(0, bytes), "layers.json", index, [](const std::string&) {
          return "blob";
        }).ok());
}

}  // namespace
}  // namespace npubank

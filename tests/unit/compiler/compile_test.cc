#include "npubank/compiler_stub/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/unit/compiler/reference_run.h"
#include "npubank/tools/benchmarks/fake_model.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

CompileOptions Options(int64_t chunk = 8, int64_t context = 32,
                       WeightFormat weights = WeightFormat::kF16) {
  CompileOptions options;
  options.name = "test";
  options.chunk = chunk;
  options.context = context;
  options.weights = weights;
  return options;
}

SubmodelBlob CompileAndRead(const ModelConfig& config, const FakeModel& model,
                            const CompileOptions& options) {
  const absl::StatusOr<std::string> bytes = Compile(*model.Over(config), options);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  absl::StatusOr<SubmodelBlob> blob = ReadSubmodelBlob(bytes.ok() ? *bytes : std::string());
  EXPECT_TRUE(blob.ok()) << blob.status();
  return blob.ok() ? *std::move(blob) : SubmodelBlob();
}

std::map<std::string, RecipePtr> WeightsOf(const SubmodelBlob& blob, const FakeModel& model) {
  const auto recipes = RecipeList::Bind(blob.recipes, model.Over(ModelConfig())->index());
  EXPECT_TRUE(recipes.ok()) << recipes.status();
  std::map<std::string, RecipePtr> weights;
  for (size_t i = 0; recipes.ok() && i < (*recipes)->size(); ++i) {
    EXPECT_EQ(blob.weights[i].part, WeightPart::kWeight) << "a closure of one part";
    weights[blob.weights[i].name] = (*recipes)->Make(i).value();
  }
  return weights;
}

std::string ErrorOf(const ModelConfig& config, const FakeModel& model,
                    const CompileOptions& options) {
  const absl::StatusOr<std::string> blob = Compile(*model.Over(config), options);
  return blob.ok() ? "no error" : std::string(blob.status().message());
}

TEST(Compile, ALayerIsAFunctionWithACallPerLayer) {
  for (int64_t layers : {2, 5, 32}) {
    const ModelConfig config = SmallConfig(layers);
    const FakeModel model(config);
    const SubmodelBlob blob = CompileAndRead(config, model, Options());
    EXPECT_EQ(blob.functions.size(), 3u);
    EXPECT_EQ(blob.calls.size(), static_cast<size_t>(layers) + 2);
    std::set<uint32_t> bound;
    for (const Call& call : blob.calls) {
      for (uint32_t weight : call.Closure()) bound.insert(weight);
    }
    EXPECT_EQ(bound.size(), 9 * static_cast<size_t>(layers) + 2);
    EXPECT_EQ(blob.weights.size(), bound.size());
  }
}

TEST(Compile, OneLayerIsOneCall) {
  const ModelConfig config = SmallConfig(1);
  const FakeModel model(config);
  const SubmodelBlob blob = CompileAndRead(config, model, Options());
  EXPECT_EQ(blob.functions.size(), 1u);
  EXPECT_EQ(blob.calls.size(), 1u);
}

TEST(Compile, InterfaceIsAsTheHeaderSays) {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config);
  const SubmodelBlob blob = CompileAndRead(config, model, Options());
  EXPECT_EQ(blob.chunk, 8u);
  EXPECT_EQ(blob.context, 32u);
  EXPECT_EQ(blob.vocabulary, 96u);
  std::map<std::string, std::pair<Placement, std::string>> values;
  for (const SubmodelValue& value : blob.values) {
    if (value.placement == Placement::kArena) continue;
    values[value.name] = {value.placement, value.type.ToString()};
  }
  const std::map<std::string, std::pair<Placement, std::string>> expected = {
      {"tokens", {Placement::kInput, "I32[8]"}},
      {"span", {Placement::kInput, "I32[2]"}},
      {"logits", {Placement::kOutput, "F32[1,96]"}},
      {"layers.0.key_cache", {Placement::kState, "F32[32,12]"}},
      {"layers.0.value_cache", {Placement::kState, "F32[32,12]"}},
      {"layers.1.key_cache", {Placement::kState, "F32[32,12]"}},
      {"layers.1.value_cache", {Placement::kState, "F32[32,12]"}},
  };
  EXPECT_EQ(values, expected);
}

TEST(Compile, PrefillAndKvcacheNeedTheSameWeights) {
  for (WeightFormat format :
       {WeightFormat::kKeep, WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    const ModelConfig config = SmallConfig(5);
    const FakeModel model(config);
    const SubmodelBlob prefill = CompileAndRead(config, model, Options(8, 32, format));
    const SubmodelBlob kvcache = CompileAndRead(config, model, Options(1, 32, format));
    const std::map<std::string, RecipePtr> a = WeightsOf(prefill, model);
    const std::map<std::string, RecipePtr> b = WeightsOf(kvcache, model);
    ASSERT_EQ(a.size(), b.size());
    std::set<std::string> digests;
    for (const auto& [name, recipe] : a) {
      EXPECT_EQ(recipe->digest(), b.at(name)->digest()) << name;
      digests.insert(recipe->digest().ToHex());
    }
    EXPECT_EQ(digests.size(), a.size()) << "two weights of one model are one";
  }
}

TEST(Compile, TheSameModelGivesTheSameBytes) {
  const ModelConfig config = SmallConfig(4);
  const FakeModel model(config);
  const absl::StatusOr<std::string> first = Compile(*model.Over(config), Options());
  const absl::StatusOr<std::string> second = Compile(*model.Over(config), Options());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(Compile, RecipesFollowTheWeightFormat) {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config, ElementType::kBF16);
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  const std::string k = "model.layers.1.self_attn.k_proj.weight";
  auto keep = WeightsOf(CompileAndRead(config, model, Options(4, 16, WeightFormat::kKeep)), model);
  EXPECT_EQ(keep[k]->Describe(), k + " BF16[12,24]");
  auto f16 = WeightsOf(CompileAndRead(config, model, Options(4, 16, WeightFormat::kF16)), model);
  EXPECT_EQ(f16[k]->Describe(), k + " BF16[12,24] -> permute(1,0) -> convert(F16)");
  EXPECT_EQ(f16["model.norm.weight"]->Describe(), "model.norm.weight BF16[24] -> convert(F32)");
  EXPECT_EQ(f16["model.embed_tokens.weight"]->Describe(),
            "model.embed_tokens.weight BF16[96,24] -> convert(F16)");
  auto bf16 = WeightsOf(CompileAndRead(config, model, Options(4, 16, WeightFormat::kBF16)), model);
  EXPECT_EQ(bf16[q]->Describe(), q + " BF16[24,24] -> permute(1,0)");
  EXPECT_EQ(bf16["model.embed_tokens.weight"]->Describe(), "model.embed_tokens.weight BF16[96,24]");
}

TEST(Compile, ATiedHeadIsTheEmbeddingTable) {
  ModelConfig config = SmallConfig(2);
  const FakeModel tied(config);
  EXPECT_EQ(WeightsOf(CompileAndRead(config, tied, Options()), tied).count("lm_head.weight"), 0u);
  config.tied_embeddings = false;
  const FakeModel untied(config);
  const auto weights = WeightsOf(CompileAndRead(config, untied, Options()), untied);
  EXPECT_EQ(weights.at("lm_head.weight")->Describe(),
            "lm_head.weight BF16[96,24] -> permute(1,0) -> convert(F16)");
}

TEST(Compile, RopeAttributesReachTheFunction) {
  ModelConfig config = SmallConfig(2);
  config.rope_interleaved = true;
  const FakeModel model(config);
  size_t ropes = 0;
  for (const SubmodelFunction& function : CompileAndRead(config, model, Options()).functions) {
    for (const FunctionOp& op : function.function.ops) {
      if (op.kind != OpKind::kRope) continue;
      ++ropes;
      EXPECT_TRUE(op.attributes.interleaved);
      EXPECT_EQ(op.attributes.frequencies, config.rope_frequencies);
    }
  }
  EXPECT_EQ(ropes, 2u);
}

TEST(Compile, NamesTheTensorThatIsWrong) {
  const ModelConfig config = SmallConfig(3);
  FakeModel model(config);
  const std::string name = "model.layers.2.mlp.up_proj.weight";
  model.Set(name, ElementType::kBF16, {24, 44});
  EXPECT_EQ(ErrorOf(config, model, Options()),
            "tensor '" + name + "' is BF16[24,44]; the config asks for [44,24]");
  model.Remove(name);
  EXPECT_THAT(ErrorOf(config, model, Options()), HasSubstr(name));
  EXPECT_EQ(Compile(*model.Over(config), Options()).status().code(), absl::StatusCode::kNotFound);
  model.Set(name, ElementType::kI32, {44, 24});
  EXPECT_THAT(
      ErrorOf(config, model, Options(4, 16, WeightFormat::kKeep)),
      HasSubstr("weight '" + name + "' is I32[44,24] on the device, which has no MatMul over I32"));
}

// Whatever the network asks of a weight, and whatever format brings it there.
TEST(Compile, RefusesAWeightThatTheDeviceHasNoFunctionFor) {
  const ModelConfig config = SmallConfig(2);  // a tied head: its table is embedded and multiplied
  const FakeModel model(config, ElementType::kBF16);
  CompileOptions options = Options(4, 16, WeightFormat::kF16);
  options.device.functions = {{OpKind::kEmbed, {ElementType::kF16, ElementType::kBF16}},
                              {OpKind::kRmsNorm, {ElementType::kF32, ElementType::kBF16}},
                              {OpKind::kMatMul, {ElementType::kF16}}};
  EXPECT_EQ(ErrorOf(config, model, options), "no error");
  options.weights = WeightFormat::kBF16;
  EXPECT_THAT(ErrorOf(config, model, options), HasSubstr("has no MatMul over BF16"));
  options.weights = WeightFormat::kKeep;
  EXPECT_THAT(ErrorOf(config, model, options), HasSubstr("has no MatMul over BF16"));
  options.weights = WeightFormat::kF32;
  EXPECT_THAT(ErrorOf(config, model, options),
              HasSubstr("'model.embed_tokens.weight' is F32[96,24] on the device, which has no "
                        "Embed over F32; choose another weight format"));
}

TEST(Compile, WhatAutoDoesNotUseAsItIsStoredIsTold) {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config, ElementType::kBF16);
  std::map<std::string, std::set<std::string>> told;
  CompileOptions options = Options(4, 16, WeightFormat::kAuto);
  options.converted = [&](absl::string_view tensor, absl::string_view becomes) {
    told[std::string(becomes)].emplace(tensor);
  };
  CompileAndRead(config, model, options);
  EXPECT_TRUE(told.empty()) << "the device has functions over all of it";
  options.device.functions = {{OpKind::kEmbed, {ElementType::kF16, ElementType::kBF16}},
                              {OpKind::kRmsNorm, {ElementType::kF32, ElementType::kBF16}},
                              {OpKind::kMatMul, {ElementType::kF16}}};
  CompileAndRead(config, model, options);
  ASSERT_EQ(told.size(), 1u);
  // Seven matrices a layer, and the table that the head takes as its matrix.
  EXPECT_EQ(told["BF16 to F16"].size(), 15u);
  EXPECT_EQ(told["BF16 to F16"].count("model.layers.1.mlp.up_proj.weight"), 1u);
  EXPECT_EQ(told["BF16 to F16"].count("model.embed_tokens.weight"), 1u);
  options.weights = WeightFormat::kF16;
  told.clear();
  CompileAndRead(config, model, options);
  EXPECT_TRUE(told.empty()) << "somebody asked for it";
}

TEST(Compile, PlacesInTheArenaAreAlignedAsTheDeviceWantsItsArguments) {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config);
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{16}, uint64_t{64}, uint64_t{4096}}) {
    CompileOptions options = Options();
    options.device.argument_alignment = alignment;
    const SubmodelBlob blob = CompileAndRead(config, model, options);
    size_t places = 0;
    for (const SubmodelValue& value : blob.values) {
      if (value.placement != Placement::kArena) continue;
      EXPECT_EQ(value.offset % std::max<uint64_t>(alignment, 64), 0u) << value.name;
      ++places;
    }
    EXPECT_GT(places, 0u);
    EXPECT_EQ(blob.scratch_offset % std::max<uint64_t>(alignment, 64), 0u);
  }
}

TEST(Compile, RefusesADeviceThatWantsArgumentsAlignedAsNoDriverAligns) {
  const ModelConfig config = SmallConfig(1);
  const FakeModel model(config);
  CompileOptions options = Options();
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{48}, uint64_t{8192}}) {
    options.device.argument_alignment = alignment;
    EXPECT_THAT(ErrorOf(config, model, options),
                HasSubstr(absl::StrCat("at multiples of ", alignment)));
  }
}

TEST(Compile, EveryTensorOfTheModelIsChecked) {
  ModelConfig config = SmallConfig(2);
  config.tied_embeddings = false;
  const FakeModel whole(config);
  const SubmodelBlob blob = CompileAndRead(config, whole, Options());
  for (const auto& [name, part] : blob.weights) {
    FakeModel model(config);
    model.Set(name, ElementType::kBF16, {7, 7});
    EXPECT_THAT(ErrorOf(config, model, Options()), HasSubstr("'" + name + "' is BF16[7,7]"));
    model.Remove(name);
    EXPECT_THAT(ErrorOf(config, model, Options()), HasSubstr(name));
  }
}

TEST(Compile, RefusesOptionsOutOfRange) {
  const ModelConfig config = SmallConfig(2);  // a context length of 64
  const FakeModel model(config);
  EXPECT_THAT(ErrorOf(config, model, Options(0, 32)), HasSubstr("chunk 0 is not in 1..4096"));
  EXPECT_THAT(ErrorOf(config, model, Options(5000, 8000)), HasSubstr("chunk 5000"));
  EXPECT_THAT(ErrorOf(config, model, Options(8, 7)), HasSubstr("context 7"));
  EXPECT_THAT(ErrorOf(config, model, Options(8, 65)), HasSubstr("context length of 64"));
  CompileOptions unnamed = Options();
  unnamed.name.clear();
  EXPECT_THAT(ErrorOf(config, model, unnamed), HasSubstr("name is empty"));
}

TEST(Compile, WeightFormatsHaveNames) {
  EXPECT_EQ(WeightFormatFromName("keep"), WeightFormat::kKeep);
  EXPECT_EQ(WeightFormatFromName("f32"), WeightFormat::kF32);
  EXPECT_EQ(WeightFormatFromName("f16"), WeightFormat::kF16);
  EXPECT_EQ(WeightFormatFromName("bf16"), WeightFormat::kBF16);
  EXPECT_EQ(WeightFormatFromName("F16"), std::nullopt);
}

// What a plan and an attention form must not change: the logits of a prompt in two chunks, bit by
// bit.
std::vector<float> LogitsOf(SubmodelBlob blob) {
  ReferenceRun run(std::move(blob));
  std::vector<float> logits = run.Run({5, 17, 80, 3, 3, 41}, 0);
  const std::vector<float> more = run.Run({9, 1, 95}, 6);
  logits.insert(logits.end(), more.begin(), more.end());
  for (float logit : logits) EXPECT_TRUE(std::isfinite(logit)) << "memory read before written";
  return logits;
}

TEST(Compile, SharingMemoryChangesNoResult) {
  const ModelConfig config = SmallConfig(3);
  const FakeModel model(config, ElementType::kF32);
  CompileOptions options = Options(8, 32, WeightFormat::kF32);
  options.reuse = false;
  const SubmodelBlob apart = CompileAndRead(config, model, options);
  const std::vector<float> expected = LogitsOf(apart);
  options.reuse = true;
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    for (Schedule schedule : {Schedule::kSerial, Schedule::kParallel}) {
      options.attention = attention;
      options.schedule = schedule;
      SubmodelBlob blob = CompileAndRead(config, model, options);
      EXPECT_LT(2 * blob.arena_bytes, apart.arena_bytes);
      EXPECT_EQ(LogitsOf(std::move(blob)), expected);
    }
  }
}

TEST(Compile, ChunksChangeNoResult) {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config, ElementType::kF32);
  ReferenceRun whole(CompileAndRead(config, model, Options(8, 32, WeightFormat::kF32)));
  const std::vector<float> expected = whole.Run({5, 17, 80, 3}, 0);
  ReferenceRun single(CompileAndRead(config, model, Options(1, 32, WeightFormat::kF32)));
  std::vector<float> logits;
  const std::vector<int32_t> tokens = {5, 17, 80, 3};
  for (size_t i = 0; i < tokens.size(); ++i) {
    logits = single.Run({tokens[i]}, static_cast<int32_t>(i));
  }
  EXPECT_EQ(logits, expected);
}

TEST(Compile, AParallelPlanAllowsEveryOrderOfOperations) {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config, ElementType::kF32);
  CompileOptions options = Options(8, 32, WeightFormat::kF32);
  options.schedule = Schedule::kParallel;
  std::mt19937 random(PrintedSeed());
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    options.attention = attention;
    const SubmodelBlob blob = CompileAndRead(config, model, options);
    const std::vector<float> expected = LogitsOf(blob);
    for (int round = 0; round < Repetitions(200); ++round) {
      SubmodelBlob shuffled = blob;
      for (SubmodelFunction& function : shuffled.functions) {
        Shuffle(function.function, random);
        EXPECT_TRUE(CheckFunction(function.function).ok()) << CheckFunction(function.function);
      }
      EXPECT_EQ(LogitsOf(std::move(shuffled)), expected);
    }
  }
}

}  // namespace
}  // namespace npubank

#include "npubank/lazy_tensor/recipe/recipe_codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe_generated.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/weights/constants_index.h"
#include "npubank/tests/support/weights/fake_source.h"
#include "npubank/tests/support/weights/random_recipe.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using testing::FakeSource;
using testing::RandomRecipes;

TensorType Type(ElementType element, const std::vector<int64_t>& dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

RecipePtr Stored(const std::string& name, const TensorType& type = Type(ElementType::kBF16, {6, 4}),
                 uint64_t offset = 0) {
  static const auto source =
      std::make_shared<FakeSource>(std::vector<std::byte>(4096), Digest{1, 0});
  return *Recipe::Constant(source, offset, type, name);
}

absl::StatusOr<std::vector<RecipePtr>> Decode(
    absl::string_view bytes,
    std::shared_ptr<const SourceIndex> index = ConstantsIndex({Stored("w"), Stored("wq")})) {
  NPUBANK_ASSIGN_OR_RETURN(const auto list, RecipeList::Bind(bytes, std::move(index)));
  std::vector<RecipePtr> recipes;
  for (size_t i = 0; i < list->size(); ++i) {
    NPUBANK_ASSIGN_OR_RETURN(recipes.emplace_back(), list->Make(i));
  }
  return recipes;
}

TEST(RecipeCodec, RandomRecipesComeBackWithTheirDigestAndAreDescribedAlikeBeforehand) {
  const uint64_t first = PrintedSeed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(Repetitions(3000)); ++seed) {
    SCOPED_TRACE("NPUBANK_SEED=" + std::to_string(seed));
    RandomRecipes random(seed);
    const std::vector<RecipePtr> recipes = {random.Make(6), random.Make(3), random.Make(0)};
    const auto bytes = EncodeRecipes(recipes);
    ASSERT_EQ(bytes.status(), absl::OkStatus());
    const auto list = RecipeList::Bind(*bytes, ConstantsIndex(recipes));
    ASSERT_EQ(list.status(), absl::OkStatus());
    ASSERT_EQ((*list)->size(), recipes.size());
    std::vector<RecipePtr> again;
    for (size_t i = 0; i < recipes.size(); ++i) {
      EXPECT_EQ((*list)->digest(i), recipes[i]->digest()) << recipes[i]->Describe();
      EXPECT_EQ((*list)->type(i), recipes[i]->type());
      EXPECT_EQ((*list)->Describe(i), recipes[i]->Describe());
      const auto made = (*list)->Make(i);
      ASSERT_EQ(made.status(), absl::OkStatus());
      EXPECT_EQ((*made)->digest(), recipes[i]->digest()) << recipes[i]->Describe();
      again.push_back(*made);
    }
    EXPECT_EQ(*EncodeRecipes(again), *bytes);
  }
}

// The index says what each constant is; nothing is opened before a recipe is made.
TEST(RecipeList, BindingOpensNoFileAndMakingOpensWhatItNeeds) {
  const TestWeights weights(2);
  const RecipePtr recipe = weights.Submodel()[0].recipe();
  const auto index = weights.Index();
  ASSERT_EQ(index->opens(), 1u);
  const auto list = RecipeList::Of(recipe, index);
  ASSERT_EQ(list.status(), absl::OkStatus());
  const LazyTensor described(Description{*list, 0});
  EXPECT_EQ(described.uid(), LazyTensor(recipe).uid());
  EXPECT_FALSE(described.detached());
  EXPECT_EQ(index->opens(), 1u);
  const uint64_t made = RecipeList::RecipesMade();
  std::vector<std::byte> bytes(described.type().bytes());
  ASSERT_EQ(described.EvaluateInto(absl::MakeSpan(bytes)), absl::OkStatus());
  EXPECT_EQ(bytes, weights.Expected(0));
  EXPECT_EQ(index->opens(), 2u);
  EXPECT_EQ(RecipeList::RecipesMade(), made + 1);
}

TEST(RecipeList, ADescribedTensorThatIsDetachedHasUidAndTypeOnly) {
  const RecipePtr recipe = *Recipe::Permute(Stored("w"), {1, 0});
  LazyTensor described(Description{RecipeList::Of(recipe, ConstantsIndex({recipe})).value(), 0});
  const LazyTensor copy = described;
  described.Detach();
  EXPECT_TRUE(copy.detached());
  EXPECT_EQ(copy.uid(), Uid::Of(recipe->digest()));
  EXPECT_EQ(copy.MakeRecipe().status().code(), absl::StatusCode::kFailedPrecondition);
}

// Two models with equal tensor names: never one's recipes over the other's bytes.
TEST(RecipeList, RecipesOfOneModelAreNotBoundToAnotherWithEqualNames) {
  const auto model = [](uint64_t number, size_t bytes, uint64_t offset) {
    const auto source =
        std::make_shared<FakeSource>(std::vector<std::byte>(bytes), Digest{9, number});
    return *Recipe::Constant(source, offset, Type(ElementType::kBF16, {6, 4}), "w");
  };
  const RecipePtr mine = model(1, 4096, 0);
  EXPECT_EQ(RecipeList::Of(mine, ConstantsIndex({mine})).status(), absl::OkStatus());
  EXPECT_EQ(RecipeList::Of(mine, ConstantsIndex({model(2, 8192, 0)})).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "another file";
  EXPECT_EQ(RecipeList::Of(mine, ConstantsIndex({model(1, 4096, 64)})).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "another place in the file";
  EXPECT_EQ(RecipeList::Of(mine, ConstantsIndex({model(2, 4096, 0)})).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "a copy of the file fits, and is another source with another digest";
}

TEST(RecipeCodec, SharedPartsAreWrittenOnceAndSharedAgain) {
  RecipePtr recipe = Stored("w");
  for (int i = 0; i < 40; ++i) recipe = *Recipe::Concat({recipe, recipe}, 0);
  const std::string bytes = *EncodeRecipes({recipe, recipe});
  EXPECT_LT(bytes.size(), 8000u);
  const std::vector<RecipePtr> again = *Decode(bytes);
  EXPECT_EQ(again[0]->inputs()[0], again[0]->inputs()[1]);
}

TEST(RecipeCodec, NoRecipesAreAnEmptyList) { EXPECT_EQ(Decode(*EncodeRecipes({}))->size(), 0u); }

TEST(RecipeCodec, AConstantNeedsAName) {
  EXPECT_EQ(EncodeRecipes({Stored("")}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeRecipes({Stored(std::string(5000, 'x'))}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeRecipes({nullptr}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecipeCodec, ATensorOfAnotherTypeThanWrittenIsRefusedByName) {
  const std::string bytes = *EncodeRecipes({Stored("wq", Type(ElementType::kF16, {6, 4}))});
  const absl::Status status = Decode(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"wq", "F16[6,4]", "BF16[6,4]"}) {
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
  }
}

TEST(RecipeCodec, ATensorThatIsNotInTheIndexIsNamed) {
  const absl::Status status =
      Decode(*EncodeRecipes({Stored("wk")}), ConstantsIndex({Stored("wq")})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("'wk'"), std::string::npos) << status;
}

// A list of steps as a forger writes it, through the schema's own builder.
struct Forger {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fbs::RecipeSource>> sources;
  std::vector<flatbuffers::Offset<fbs::Node>> nodes;

  Forger() { sources.push_back(fbs::CreateRecipeSourceDirect(builder, "fake", 4096, 1, 0)); }
  void Node(uint16_t operation, const std::vector<uint32_t>& inputs,
            const std::vector<int64_t>& dims, const std::vector<int64_t>& values,
            uint8_t element = 3, const char* name = nullptr, uint32_t source = 0,
            uint64_t offset = 0) {
    nodes.push_back(fbs::CreateNodeDirect(builder, operation, &inputs, element, &dims, &values,
                                          source, offset, name));
  }
  void Leaf() { Node(1, {}, {6, 4}, {}, 3, "w"); }

  std::string Finish(const std::vector<uint32_t>& roots, uint32_t version = 2) {
    fbs::FinishRecipeListBuffer(
        builder, fbs::CreateRecipeListDirect(builder, version, &sources, &nodes, &roots));
    return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                       builder.GetSize());
  }
};

TEST(RecipeCodec, AnUnknownOperationIsNamedByItsNumber) {
  Forger forger;
  forger.Leaf();
  forger.Node(60000, {0}, {6, 4}, {});
  const absl::Status status = Decode(forger.Finish({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("60000"), std::string::npos) << status;
}

TEST(RecipeCodec, AnOperationOfAnEmbedderIsRefusedByItsNumber) {
  Forger forger;
  forger.Leaf();
  forger.Node(0x8001, {0}, {6, 4}, {});
  const absl::Status status = Decode(forger.Finish({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("32769"), std::string::npos) << status;
}

TEST(RecipeCodec, AnotherVersionIsRefusedByItsNumber) {
  for (const uint32_t version : {1, 3}) {
    Forger forger;
    const absl::Status status = Decode(forger.Finish({}, version)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("version " + std::to_string(version)),
              std::string::npos)
        << status;
  }
}

// Whether a list of a leaf BF16[6,4] and what `forge` adds is refused as it should be.
bool Refused(const std::function<void(Forger&)>& forge, uint32_t root = 1) {
  Forger forger;
  forger.Leaf();
  forge(forger);
  return Decode(forger.Finish({root})).status().code() == absl::StatusCode::kInvalidArgument;
}

TEST(RecipeCodec, ForgedStepsAreRefused) {
  EXPECT_FALSE(Refused([](Forger& f) { f.Node(5, {0}, {4, 6}, {1, 0}); })) << "a sound one";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {0}, {6, 4}, {1, 0}); })) << "of another type";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {0}, {4, 6}, {1, 0}, 2); })) << "another element";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {0}, {4, 6}, {1, 0}); }, 2)) << "no such root";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {1}, {4, 6}, {1, 0}); })) << "its own input";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {7}, {4, 6}, {1, 0}); })) << "input not there";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {}, {4, 6}, {1, 0}); })) << "no input";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {0, 0}, {4, 6}, {1, 0}); })) << "two inputs";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {0}, {4, 6}, {int64_t{1} << 32, 0}); }));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(5, {0}, {4, 6}, std::vector<int64_t>(1000, 0)); }));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(2, {0, 0}, {12, 4}, {int64_t{1} << 32}); }));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(2, {0, 0}, {12, 4}, {}); })) << "concat without axis";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(2, {}, {12, 4}, {0}); })) << "concat of nothing";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(3, {0}, {1, 1}, {INT64_MAX, INT64_MIN}); }));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(4, {0}, {INT64_MIN, -1}, {}); }));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(4, {0}, {}, {}); }));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(6, {0}, {6, 4}, {}, 0); })) << "element type 0";
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(6, {0}, {6, 4}, {}, 200); })) << "element type 200";
}

// No recipe has two permutes in a row (recipe.h), so what such a list makes is not what it says.
TEST(RecipeCodec, PermutesInARowAreRefused) {
  const auto forge = [](Forger& f) {
    f.Node(5, {0}, {4, 6}, {1, 0});
    f.Node(5, {1}, {6, 4}, {1, 0});
  };
  EXPECT_TRUE(Refused(forge, 2));
}

TEST(RecipeCodec, ForgedConstantsAreRefused) {
  const auto constant = [](const std::vector<int64_t>& dims, const char* name, uint32_t source = 0,
                           uint64_t offset = 0) {
    return Refused([&](Forger& f) { f.Node(1, {}, dims, {}, 3, name, source, offset); });
  };
  EXPECT_FALSE(constant({6, 4}, "w")) << "a sound one";
  EXPECT_TRUE(constant({6, 4}, nullptr)) << "no name";
  EXPECT_TRUE(constant({6, 4}, "w", 1)) << "a source that is not in the table";
  EXPECT_TRUE(constant({6, 4}, "w", 0, 8)) << "at another byte than the index says";
  EXPECT_TRUE(constant({6, 4}, "w", 0, UINT64_MAX));
  EXPECT_TRUE(constant({4, 6}, "w")) << "of another shape";
  EXPECT_TRUE(constant({INT64_MAX, INT64_MAX}, "w"));
  EXPECT_TRUE(Refused([](Forger& f) { f.Node(1, {0}, {6, 4}, {}, 3, "w"); })) << "leaf with input";
  Forger nameless;
  nameless.sources.back() = fbs::CreateRecipeSource(nameless.builder, 0, 4096, 1, 0);
  EXPECT_EQ(Decode(nameless.Finish({})).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecipeCodec, ForgedStepsThatComputeAreRefused) {
  const auto decodes = [](const std::function<void(Forger&)>& forge) {
    return !Refused(
        [&](Forger& f) {
          f.Node(6, {0}, {6, 4}, {}, 14);  // 1: U8[6,4]
          f.Node(6, {0}, {6, 4}, {}, 8);   // 2: I32[6,4]
          forge(f);                        // 3
        },
        3);
  };
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(7, {}, {6, 4}, {5}, 3); })) << "a sound splat";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(7, {}, {6, 4}, {}, 3); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(7, {}, {6, 4}, {INT64_MIN}, 3); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(7, {}, {INT64_MAX, 2}, {5}, 3); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(8, {0, 0}, {6, 4}, {}, 2); })) << "a sound unpack";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(8, {0}, {6, 4}, {}, 2); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(8, {0, 0, 0, 0}, {6, 4}, {}, 2); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(9, {1, 0}, {6, 4}, {}); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(9, {1}, {6, 4}, {}); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(10, {1}, {6, 4}, {}, 10); })) << "a sound shift";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(10, {0}, {6, 4}, {}, 10); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(11, {2}, {6, 32}, {4}, 17); })) << "sound nibbles";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {6, 32}, {0}, 17); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {6, 32}, {5}, 17); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(11, {2}, {6, 16}, {5}, 14); })) << "sound bytes";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {6, 16}, {8}, 14); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {6, 32}, {(int64_t{1} << 32) + 1}, 17); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(12, {1}, {6, 4}, {2}, 2); })) << "rows of 4 bytes";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(12, {1}, {6, 4}, {(int64_t{1} << 32) + 2}, 2); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(12, {1}, {6, 4}, {99}, 2); }));
}

TEST(RecipeCodec, DepthTenThousandIsRefused) {
  Forger forger;
  forger.Leaf();
  for (uint32_t i = 0; i < 10000; ++i) forger.Node(6, {i}, {6, 4}, {}, i % 2 == 0 ? 2 : 3);
  EXPECT_EQ(Decode(forger.Finish({10000})).status().code(), absl::StatusCode::kInvalidArgument);
}

// One long list of inputs that every step refers to: small in the file, endless to read.
TEST(RecipeCodec, PartsThatStepsShareInTheFileAreBoundedByWhatTheyAdd) {
  Forger forger;
  forger.Leaf();
  const auto inputs = forger.builder.CreateVector(std::vector<uint32_t>(100000, 0));
  const auto axis = forger.builder.CreateVector(std::vector<int64_t>{0});
  const auto dims = forger.builder.CreateVector(std::vector<int64_t>{600000, 4});
  for (int i = 0; i < 10000; ++i) {
    forger.nodes.push_back(fbs::CreateNode(forger.builder, 2, inputs, 3, dims, axis));
  }
  EXPECT_EQ(Decode(forger.Finish({1})).status().code(), absl::StatusCode::kInvalidArgument);
}

// The last bytes may be padding, which nothing reads.
TEST(RecipeCodec, ATruncationIsRefusedOrCutsNothingButPadding) {
  const RecipePtr transposed = *Recipe::Permute(Stored("w"), {1, 0});
  const std::string bytes = *EncodeRecipes({transposed});
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = Decode(bytes.substr(0, size));
    EXPECT_EQ(decoded.ok(), size > bytes.size() - 4) << size;
    if (decoded.ok()) {
      EXPECT_EQ((*decoded)[0]->digest(), transposed->digest());
    }
  }
}

// Any flipped byte: refused, or read as some other sound list; run under the sanitizers.
TEST(RecipeCodec, FlippedBytesNeverDoHarm) {
  const RecipePtr w = Stored("w");
  const RecipePtr recipe = *Recipe::Convert(
      *Recipe::Reshape(*Recipe::Slice(*Recipe::Concat({w, w}, 1), {1, 0}, {4, 8}), {32}),
      ElementType::kF32);
  const std::string bytes = *EncodeRecipes({recipe});
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string forged = bytes;
      forged[at] = static_cast<char>(forged[at] ^ (1 << bit));
      const auto decoded = Decode(forged);
      if (decoded.ok()) {
        for (const RecipePtr& root : *decoded) EXPECT_FALSE(root->Describe().empty());
      }
    }
  }
}

}  // namespace
}  // namespace npubank

#include "npubank/lazy_tensor/recipe_codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "npubank/lazy_tensor/recipe_generated.h"
#include "npubank/tests/support/fake_source.h"
#include "npubank/tests/support/random_recipe.h"

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

absl::StatusOr<std::vector<RecipePtr>> Decode(absl::string_view bytes) {
  return DecodeRecipes(bytes, [](absl::string_view name) -> absl::StatusOr<RecipePtr> {
    return Stored(std::string(name));
  });
}

TEST(RecipeCodec, RandomRecipesComeBackWithTheirDigest) {
  const uint64_t first = std::random_device()();
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRecipes random(seed);
    const std::vector<RecipePtr> recipes = {random.Make(6), random.Make(3), random.Make(0)};
    const auto bytes = EncodeRecipes(recipes);
    ASSERT_EQ(bytes.status(), absl::OkStatus());
    const auto again =
        DecodeRecipes(*bytes, [&](absl::string_view name) -> absl::StatusOr<RecipePtr> {
          return random.constants().at(std::string(name));
        });
    ASSERT_EQ(again.status(), absl::OkStatus());
    ASSERT_EQ(again->size(), recipes.size());
    for (size_t i = 0; i < recipes.size(); ++i) {
      EXPECT_EQ((*again)[i]->digest(), recipes[i]->digest()) << recipes[i]->Describe();
      EXPECT_EQ((*again)[i]->type(), recipes[i]->type());
    }
    EXPECT_EQ(*EncodeRecipes(*again), *bytes);
  }
}

TEST(RecipeCodec, SharedPartsAreWrittenOnceAndSharedAgain) {
  RecipePtr recipe = Stored("w");
  for (int i = 0; i < 40; ++i) recipe = *Recipe::Concat({recipe, recipe}, 0);
  const std::string bytes = *EncodeRecipes({recipe, recipe});
  EXPECT_LT(bytes.size(), 8000u);
  const std::vector<RecipePtr> again = *Decode(bytes);
  EXPECT_EQ(again[0], again[1]);
  EXPECT_EQ(again[0]->inputs()[0], again[0]->inputs()[1]);
}

TEST(RecipeCodec, NoRecipesAreAnEmptyList) { EXPECT_EQ(Decode(*EncodeRecipes({}))->size(), 0u); }

TEST(RecipeCodec, AConstantNeedsANameThatLeadsBackToIt) {
  EXPECT_EQ(EncodeRecipes({Stored("")}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeRecipes({Stored(std::string(5000, 'x'))}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto clash = EncodeRecipes({Stored("w"), Stored("w", Type(ElementType::kBF16, {6, 4}), 8)});
  EXPECT_EQ(clash.status().code(), absl::StatusCode::kInvalidArgument);
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

TEST(RecipeCodec, WhatTheLeafAnswersIsPassedOn) {
  const std::string bytes = *EncodeRecipes({Stored("wq")});
  const auto answered = [&](absl::StatusOr<RecipePtr> leaf) {
    return DecodeRecipes(bytes, [&](absl::string_view) { return leaf; }).status().code();
  };
  EXPECT_EQ(answered(absl::PermissionDeniedError("no")), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(answered(RecipePtr()), absl::StatusCode::kNotFound);
}

// A list of steps as a forger writes it, through the schema's own builder.
struct Forger {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fbs::Node>> nodes;

  void Node(uint16_t operation, const std::vector<uint32_t>& inputs,
            const std::vector<int64_t>& dims, const std::vector<int64_t>& values,
            uint8_t element = 3, const char* name = nullptr) {
    nodes.push_back(
        fbs::CreateNodeDirect(builder, operation, &inputs, element, &dims, &values, name));
  }
  void Leaf() { Node(1, {}, {6, 4}, {}, 3, "w"); }

  std::string Finish(const std::vector<uint32_t>& roots, uint32_t version = 1) {
    fbs::FinishRecipeListBuffer(builder,
                                fbs::CreateRecipeListDirect(builder, version, &nodes, &roots));
    return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                       builder.GetSize());
  }
};

TEST(RecipeCodec, AnUnknownOperationIsNamedByItsNumber) {
  Forger forger;
  forger.Leaf();
  forger.Node(60000, {0}, {}, {});
  const absl::Status status = Decode(forger.Finish({1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("60000"), std::string::npos) << status;
}

TEST(RecipeCodec, AnotherVersionIsRefused) {
  Forger forger;
  EXPECT_EQ(Decode(forger.Finish({}, 2)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecipeCodec, ForgedStepsAreRefused) {
  const auto refused = [](const std::function<void(Forger&)>& forge, uint32_t root = 1) {
    Forger forger;
    forger.Leaf();
    forge(forger);
    return Decode(forger.Finish({root})).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](Forger& f) { f.Node(5, {0}, {}, {1, 0}); }));  // a sound one
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {0}, {}, {1, 0}); }, 2)) << "root beyond the list";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {1}, {}, {1, 0}); })) << "its own input";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {7}, {}, {1, 0}); })) << "input not there";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {}, {}, {1, 0}); })) << "no input";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {0, 0}, {}, {1, 0}); })) << "two inputs";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {0}, {}, {int64_t{1} << 32, 0}); }));
  EXPECT_TRUE(refused([](Forger& f) { f.Node(5, {0}, {}, std::vector<int64_t>(1000, 0)); }));
  EXPECT_TRUE(refused([](Forger& f) { f.Node(2, {0, 0}, {}, {int64_t{1} << 32}); }));
  EXPECT_TRUE(refused([](Forger& f) { f.Node(2, {0, 0}, {}, {}); })) << "concat without axis";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(2, {}, {}, {0}); })) << "concat of nothing";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(3, {0}, {1, 1}, {INT64_MAX, INT64_MIN}); }));
  EXPECT_TRUE(refused([](Forger& f) { f.Node(4, {0}, {INT64_MIN, -1}, {}); }));
  EXPECT_TRUE(refused([](Forger& f) { f.Node(4, {0}, {}, {}); }));
  EXPECT_TRUE(refused([](Forger& f) { f.Node(6, {0}, {}, {}, 0); })) << "element type 0";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(6, {0}, {}, {}, 200); })) << "element type 200";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(1, {}, {6, 4}, {}, 3, nullptr); })) << "no name";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(1, {0}, {6, 4}, {}, 3, "w"); })) << "leaf with input";
  EXPECT_TRUE(refused([](Forger& f) { f.Node(1, {}, {INT64_MAX, INT64_MAX}, {}, 3, "w"); }));
}

TEST(RecipeCodec, ForgedStepsThatComputeAreRefused) {
  const auto decodes = [](const std::function<void(Forger&)>& forge) {
    Forger forger;
    forger.Leaf();                    // 0: BF16[6,4]
    forger.Node(6, {0}, {}, {}, 14);  // 1: U8[6,4]
    forger.Node(6, {0}, {}, {}, 8);   // 2: I32[6,4]
    forge(forger);                    // 3
    return Decode(forger.Finish({3})).status().code() != absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(7, {}, {6, 4}, {5}, 3); })) << "a sound splat";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(7, {}, {6, 4}, {}, 3); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(7, {}, {6, 4}, {INT64_MIN}, 3); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(7, {}, {INT64_MAX, 2}, {5}, 3); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(8, {0, 0}, {}, {}, 2); })) << "a sound unpack";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(8, {0}, {}, {}, 2); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(8, {0, 0, 0, 0}, {}, {}, 2); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(9, {1, 0}, {}, {}); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(9, {1}, {}, {}); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(10, {1}, {}, {}); })) << "a sound shift";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(10, {0}, {}, {}); }));
  EXPECT_TRUE(decodes([](Forger& f) { f.Node(11, {2}, {}, {4}); })) << "sound nibbles";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {}, {0}); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {}, {5}); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(11, {2}, {}, {(int64_t{1} << 32) + 1}); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(12, {1}, {}, {2}, 2); })) << "rows of 4 bytes";
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(12, {1}, {}, {(int64_t{1} << 32) + 2}, 2); }));
  EXPECT_FALSE(decodes([](Forger& f) { f.Node(12, {1}, {}, {99}, 2); }));
}

TEST(RecipeCodec, DepthTenThousandIsRefused) {
  Forger forger;
  forger.Leaf();
  for (uint32_t i = 0; i < 10000; ++i) forger.Node(5, {i}, {}, {1, 0});
  EXPECT_EQ(Decode(forger.Finish({10000})).status().code(), absl::StatusCode::kInvalidArgument);
}

// One long list of inputs that every step refers to: small in the file, endless to read.
TEST(RecipeCodec, PartsThatStepsShareInTheFileAreBoundedByWhatTheyAdd) {
  Forger forger;
  forger.Leaf();
  const auto inputs = forger.builder.CreateVector(std::vector<uint32_t>(100000, 0));
  const auto axis = forger.builder.CreateVector(std::vector<int64_t>{0});
  for (int i = 0; i < 10000; ++i) {
    forger.nodes.push_back(fbs::CreateNode(forger.builder, 2, inputs, 3, 0, axis, 0));
  }
  EXPECT_EQ(Decode(forger.Finish({1})).status().code(), absl::StatusCode::kInvalidArgument);
}

// The last bytes may be padding, which nothing reads.
TEST(RecipeCodec, ATruncationIsRefusedOrCutsNothingButPadding) {
  const RecipePtr turned = *Recipe::Permute(Stored("w"), {1, 0});
  const std::string bytes = *EncodeRecipes({turned});
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = Decode(bytes.substr(0, size));
    EXPECT_EQ(decoded.ok(), size > bytes.size() - 3) << size;
    if (decoded.ok()) {
      EXPECT_EQ((*decoded)[0]->digest(), turned->digest());
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

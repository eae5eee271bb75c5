// A real model through manifests: what the compiler stub makes is turned into native blobs and a
// manifest for each submodel, and run from there, where nothing knows the stub's blobs any more. It
// says the same ids.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/compiled_submodel.h"
#include "npubank/runtime/manifest/manifest.h"
#include "npubank/runtime/session.h"
#include "npubank/runtime/submodel_group.h"
#include "npubank/tests/support/manifest_writer.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {
namespace {

constexpr int kChunk = 8;
constexpr int kTokens = 40;
const std::vector<int32_t> kPrompt = {1, 403, 407, 261, 378};

using Feed = std::function<std::vector<float>(absl::Span<const int32_t> tokens)>;

// Greedily, as bank-run does.
std::vector<int32_t> Continue(const Feed& feed) {
  std::vector<int32_t> ids = kPrompt;
  std::vector<float> logits = feed(kPrompt);
  for (int i = 0; i < kTokens; ++i) {
    ids.push_back(Argmax(logits));
    logits = feed({&ids.back(), 1});
  }
  return ids;
}

struct Case {
  const char* name;
  WeightFormat weights;
  std::function<std::string(const TemporaryFolder&)> model;
};

class ManifestModelTest : public NpuTest, public ::testing::WithParamInterface<Case> {
 protected:
  std::vector<std::string> CompileBoth(const Checkpoint& checkpoint) {
    std::vector<std::string> blobs;
    for (const int64_t chunk : {kChunk, 1}) {
      CompileOptions options;
      options.name = chunk == 1 ? "kvcache" : "prefill";
      options.chunk = chunk;
      options.context = 128;
      options.weights = GetParam().weights;
      auto blob = Compile(checkpoint, options);
      EXPECT_TRUE(blob.ok()) << blob.status();
      blobs.push_back(*std::move(blob));
    }
    return blobs;
  }

  std::vector<int32_t> ThroughBlobs(const Checkpoint& checkpoint,
                                    const std::vector<std::string>& blobs) {
    auto session = Session::Load(place_.npu, place_.bank, blobs, checkpoint.index(), {});
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    return Continue([&](absl::Span<const int32_t> tokens) {
      const auto logits = session_->Feed(tokens);
      EXPECT_TRUE(logits.ok()) << logits.status();
      return std::vector<float>(logits->begin(), logits->end());
    });
  }

  // The manifests' paths.
  std::vector<std::string> Convert(const Checkpoint& checkpoint,
                                   const std::vector<std::string>& blobs) {
    std::vector<std::string> paths;
    for (const std::string& blob : blobs) {
      const auto compiled = ReadCompiledSubmodel(blob, checkpoint.index());
      EXPECT_TRUE(compiled.ok()) << compiled.status();
      auto path = WriteManifest(compiled->description, folder_.path());
      EXPECT_TRUE(path.ok()) << path.status();
      paths.push_back(*std::move(path));
    }
    return paths;
  }

  std::vector<int32_t> ThroughManifests(const std::shared_ptr<const SourceIndex>& index,
                                        const std::vector<std::string>& paths) {
    std::vector<SubmodelDescription> submodels;
    for (const std::string& path : paths) {
      auto submodel = ReadManifest(path, index);
      EXPECT_TRUE(submodel.ok()) << submodel.status();
      submodels.push_back(*std::move(submodel));
    }
    auto group = SubmodelGroup::Register(place_.npu, place_.bank, submodels, "foreign");
    EXPECT_TRUE(group.ok()) << group.status();
    for (const Submodel& submodel : (*group)->submodels())
      EXPECT_EQ(submodel.hits(), submodel.description().weights.size())
          << "the same weights as the blob's, so the bank has them";
    EXPECT_TRUE((*group)->MakeFunctions().ok());
    EXPECT_TRUE((*group)->Prepare().ok());
    int32_t position = 0;
    return Continue([&](absl::Span<const int32_t> tokens) {
      const int32_t span[] = {position, static_cast<int32_t>(tokens.size())};
      std::memcpy((*group)->Buffer("tokens").data(), tokens.data(), tokens.size() * 4);
      std::memcpy((*group)->Buffer("span").data(), span, sizeof(span));
      const absl::Status run = (*group)->Run(tokens.size() > 1 ? 0 : 1);
      EXPECT_TRUE(run.ok()) << run;
      position += static_cast<int32_t>(tokens.size());
      std::vector<float> logits((*group)->Buffer("logits").size() / sizeof(float));
      std::memcpy(logits.data(), (*group)->Buffer("logits").data(), logits.size() * sizeof(float));
      return logits;
    });
  }

  void TearDown() override {
    session_.reset();
    NpuTest::TearDown();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Session> session_;  // its weights are on the bank when the manifests come
};

TEST_P(ManifestModelTest, SaysTheSameAsThroughTheCompilersBlobs) {
  const TemporaryFolder model;
  auto checkpoint = Checkpoint::Open(GetParam().model(model));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::vector<std::string> blobs = CompileBoth(**checkpoint);
  const std::vector<int32_t> expected = ThroughBlobs(**checkpoint, blobs);
  ASSERT_EQ(expected.size(), kPrompt.size() + kTokens);
  EXPECT_EQ(ThroughManifests((*checkpoint)->index(), Convert(**checkpoint, blobs)), expected);
  checkpoint->reset();
}

INSTANTIATE_TEST_SUITE_P(
    Stories, ManifestModelTest,
    ::testing::Values(Case{"transposed", WeightFormat::kF16,
                           [](const TemporaryFolder&) { return StoriesFolder(); }},
                      Case{"gguf_blocks", WeightFormat::kKeep,
                           [](const TemporaryFolder&) { return StoriesGguf(); }},
                      Case{"gptq_planes", WeightFormat::kPacked,
                           [](const TemporaryFolder& folder) {
                             WriteGptqStories(folder.path());
                             return folder.path();
                           }}),
    [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace npubank

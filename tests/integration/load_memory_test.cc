// What a load costs of the device's memory and of the host's, by the driver's own counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/memory/strategies/placed.h"
#include "npubank/runtime/memory/strategies/tiled.h"
#include "npubank/runtime/memory/upload.h"
#include "npubank/tests/integration/generated_ids.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tools/run/memory_monitor.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

// A driver that can do everything.
std::map<std::string, std::string> EverySwitch(bool host_access) {
  return {{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
          {"NPUBANK_NPU_IMPORT", "1"},
          {"NPUBANK_NPU_HOST_ACCESS", host_access ? "1" : "0"}};
}

BankPlace OpenPlace(MemoryStrategy strategy, std::shared_ptr<CacheFile> cache = nullptr) {
  auto place = BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/2,
                               {.strategy = strategy}, {.cache = std::move(cache)});
  EXPECT_TRUE(place.ok()) << place.status();
  return *std::move(place);
}

std::unique_ptr<ModelRun> LoadModel(const BankPlace& place, const TestModel& model,
                                    WeightFormat weights) {
  ModelRunOptions options;
  options.model = model.folder();
  options.weights = weights;
  options.chunk = 4;
  auto run = ModelRun::Load(options, place);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

std::vector<int32_t> IdsOnCommittedMemory(const TestModel& model, WeightFormat weights) {
  const BankPlace place = OpenPlace(MemoryStrategy::kCommitted);
  return GeneratedIds(*LoadModel(place, model, weights));
}

// 83 MB as BF16.
constexpr CheckpointShape kLargeShape = {.layers = 8,
                                         .hidden = 512,
                                         .heads = 8,
                                         .kv_heads = 4,
                                         .intermediate = 1536,
                                         .vocab = 16000,
                                         .context = 64,
                                         .padded = true};

class ZeroCopyTest : public ::testing::Test {
 protected:
  const NpuSwitches switches_{EverySwitch(true)};
};

TEST_F(ZeroCopyTest, ACheckpointThatIsKeptAsItIsIsNeitherCopiedNorHeld) {
  const TestModel model(kLargeShape);
  const std::vector<int32_t> ids = IdsOnCommittedMemory(model, WeightFormat::kKeep);
  BankPlace place = OpenPlace(MemoryStrategy::kImported);
  const auto& software = *place.device->software();
  const uint64_t copied = DriverStatistics(software).copied_bytes;
  const uint64_t anonymous = ProcessMemoryNow().anonymous_bytes;
  auto run = LoadModel(place, model, WeightFormat::kKeep);
  EXPECT_LT(ProcessMemoryNow().anonymous_bytes, anonymous + (32 << 20));
  const BankTotals totals = place.bank->Totals();
  EXPECT_GT(totals.unique_bytes, 80'000'000u);
  EXPECT_EQ(totals.device_bytes, 0u);
  EXPECT_EQ(place.memory->Usage().imported_bytes, totals.unique_bytes) << "every weight";
  EXPECT_EQ(DriverStatistics(software).live_bytes, 0u);
  EXPECT_EQ(DriverStatistics(software).live_imports, 1u) << "the file, once";
  EXPECT_EQ(LiveSourceBytes(), 0u);
  EXPECT_EQ(GeneratedIds(*run), ids);
  const TestModel other;
  auto second = LoadModel(place, other, WeightFormat::kKeep);
  EXPECT_EQ(DriverStatistics(software).live_imports, 2u) << "one for each file";
  EXPECT_EQ(DriverStatistics(software).copied_bytes, copied);
  run.reset();
  EXPECT_EQ(DriverStatistics(software).live_imports, 1u);
  second.reset();
  place = BankPlace();
  ExpectNothingLeft(software, "after both models");
}

class CacheImportTest : public ZeroCopyTest {
 protected:
  std::shared_ptr<CacheFile> OpenCache() const {
    return CacheFile::Open({.path = model_.file("weights.cache")});
  }
  void FillCache() const {
    const auto cache = OpenCache();
    const BankPlace place = OpenPlace(MemoryStrategy::kImported, cache);
    LoadModel(place, model_, WeightFormat::kF16);
    const absl::Status saved = cache->Save();
    ASSERT_TRUE(saved.ok()) << saved;
  }

  const TestModel model_;
  const std::vector<int32_t> ids_ = IdsOnCommittedMemory(model_, WeightFormat::kF16);
};

TEST_F(CacheImportTest, AWarmLoadImportsWhatAnEarlierOneComputed) {
  FillCache();
  BankPlace place = OpenPlace(MemoryStrategy::kImported, OpenCache());
  const auto& software = *place.device->software();
  const uint64_t copied = DriverStatistics(software).copied_bytes;
  auto run = LoadModel(place, model_, WeightFormat::kF16);
  const BankTotals totals = place.bank->Totals();
  EXPECT_EQ(totals.transformations, 0u);
  EXPECT_EQ(totals.cache_hits, totals.unique_tensors);
  EXPECT_EQ(totals.device_bytes, 0u);
  EXPECT_EQ(place.memory->Usage().imported_bytes, totals.unique_bytes);
  EXPECT_EQ(DriverStatistics(software).live_bytes, 0u);
  EXPECT_EQ(DriverStatistics(software).live_imports, 1u) << "the cache, and no checkpoint";
  EXPECT_EQ(DriverStatistics(software).copied_bytes, copied);
  EXPECT_EQ(LiveSourceBytes(), 0u);
  EXPECT_EQ(GeneratedIds(*run), ids_);
  run.reset();
  place = BankPlace();
  ExpectNothingLeft(software, "after the warm load");
}

TEST_F(CacheImportTest, APayloadThatChangedIsEvaluatedAgainAndNotImported) {
  FillCache();
  const std::string path = model_.file("weights.cache");
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 + 17);
    file.put('\x5a');
    ASSERT_TRUE(file.good());
  }
  BankPlace place = OpenPlace(MemoryStrategy::kImported, OpenCache());
  auto run = LoadModel(place, model_, WeightFormat::kF16);
  const BankTotals totals = place.bank->Totals();
  EXPECT_EQ(totals.transformations, 1u);
  EXPECT_EQ(totals.cache_hits, totals.unique_tensors - 1);
  EXPECT_GT(totals.device_bytes, 0u);
  EXPECT_EQ(GeneratedIds(*run), ids_);
}

// The order of a load holds the peak at max(W + window, W + A).
class LoadPeakTest : public ::testing::TestWithParam<std::tuple<MemoryStrategy, bool, bool>> {
 protected:
  static CheckpointShape Shape() {
    return {.layers = 4,
            .hidden = 256,
            .heads = 4,
            .kv_heads = 2,
            .intermediate = 768,
            .vocab = 4000,
            .context = 64,
            .format = packed() ? CheckpointFormat::kAwq : CheckpointFormat::kSafetensors};
  }
  static MemoryStrategy strategy() { return std::get<0>(GetParam()); }
  static bool host_access() { return std::get<1>(GetParam()); }
  // Four-bit planes of an AWQ model, else whole tensors in F16.
  static bool packed() { return std::get<2>(GetParam()); }
  static WeightFormat weight_format() { return packed() ? WeightFormat::kPacked : WeightFormat::kF16; }

  // What a strategy may hold beyond what it says that tensors cost: the rest of one slab, which is
  // of the least size in a model this small; of one tile; of both.
  static uint64_t Slack() {
    constexpr uint64_t kPage = 64 << 10;
    switch (strategy()) {
      case MemoryStrategy::kCommitted:
        return 0;
      case MemoryStrategy::kPlaced:
        return Placed::Options().least_slab_bytes;
      default:
        return Tiled::kTileBytes + 16 * kPage;
    }
  }
  // The staging ring: of two buffers, where the host cannot touch the device's memory.
  static uint64_t Window() { return host_access() ? 0 : 2 * Staging::kPieceBytes; }

  const NpuSwitches switches_{EverySwitch(host_access())};
  const TestModel model_{Shape()};
};

TEST_P(LoadPeakTest, IsWeightsAndTheLargerOfWindowAndActivationsAndLittleMore) {
  BankPlace place = OpenPlace(strategy());
  const auto& software = *place.device->software();
  software.pfnResetPeak();
  auto run = LoadModel(place, model_, weight_format());
  const uint64_t weights = place.bank->Totals().device_bytes;
  ASSERT_GT(weights, (packed() ? uint64_t{5} : uint64_t{9}) << 20);
  EXPECT_LE(DriverStatistics(software).peak_bytes, weights + Window() + Slack());
  EXPECT_LE(DriverStatistics(software).live_bytes, weights + Slack()) << "no ring is kept";
  ASSERT_TRUE(run->Prepare().ok());
  const uint64_t activations = run->session().device_bytes();
  // What the host talks through: tokens, span and logits.
  const uint64_t host = DriverStatistics(software).live_bytes - place.memory->Usage().held_bytes;
  EXPECT_LT(host, uint64_t{64} << 10);
  GeneratedIds(*run);
  const uint64_t formula = weights + std::max(Window(), activations + host);
  const uint64_t peak = DriverStatistics(software).peak_bytes;
  std::cout << "peak " << peak << ", max(W + window, W + A) " << formula << std::endl;
  EXPECT_LE(peak, formula + Slack());
}

TEST_P(LoadPeakTest, IsGivenBackWhenOneOfTwoModelsGoesOrSleeps) {
  CheckpointShape shape = Shape();
  shape.seed = 2;
  const TestModel other(shape);
  BankPlace place = OpenPlace(strategy());
  const auto& software = *place.device->software();
  auto stays = LoadModel(place, model_, weight_format());
  const uint64_t weights = place.bank->Totals().device_bytes;
  auto goes = LoadModel(place, other, weight_format());
  EXPECT_GT(DriverStatistics(software).live_bytes, 2 * weights * 9 / 10);
  ASSERT_TRUE(goes->session().Sleep().ok());
  EXPECT_LE(DriverStatistics(software).live_bytes, weights + Slack()) << "asleep";
  ASSERT_TRUE(goes->session().Wake().ok());
  EXPECT_GT(DriverStatistics(software).live_bytes, 2 * weights * 9 / 10);
  goes.reset();
  EXPECT_LE(DriverStatistics(software).live_bytes, weights + Slack()) << "gone";
  stays.reset();
  place = BankPlace();
  ExpectNothingLeft(software, "after both");
}

INSTANTIATE_TEST_SUITE_P(
    Every, LoadPeakTest,
    ::testing::Combine(::testing::Values(MemoryStrategy::kCommitted, MemoryStrategy::kPlaced,
                                         MemoryStrategy::kTiled, MemoryStrategy::kImported),
                       ::testing::Bool(), ::testing::Bool()),
    [](const auto& test) {
      return absl::StrCat(MemoryStrategyName(std::get<0>(test.param)),
                          std::get<1>(test.param) ? "_host_writable" : "_staged",
                          std::get<2>(test.param) ? "_packed" : "");
    });

}  // namespace
}  // namespace npubank

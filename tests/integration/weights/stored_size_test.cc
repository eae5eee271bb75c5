// What a model takes on the device is what is stored: every format people have, kept and packed, imported
// and copied.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "npubank/bank/files/cache_file.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/integration/generated_ids.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

struct Stored {
  const char* name;
  CheckpointFormat format;
  ElementType element = ElementType::kBF16;
  int64_t shards = 1;
};

// Large enough that pages and slabs round little.
CheckpointShape ShapeOf(const Stored& stored) {
  return {.layers = 4,
          .hidden = 512,
          .heads = 8,
          .kv_heads = 4,
          .intermediate = 1536,
          .vocab = 4000,
          .context = 64,
          .format = stored.format,
          .element = stored.element,
          .shards = stored.shards};
}

class StoredSizeTest : public ::testing::TestWithParam<Stored> {
 protected:
  struct Loaded {
    BankTotals totals;
    uint64_t imported = 0;
    uint64_t hits = 0;
    std::vector<int32_t> ids;
  };
  Loaded Load(WeightFormat weights, MemoryStrategy strategy, std::shared_ptr<CacheFile> cache = nullptr) const {
    Loaded loaded;
    auto place = BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/2,
                                 {.strategy = strategy, .argument_alignment = 1},
                                 // Made-up scales of blocks are all the same: that saving is no format's.
                                 {.share_content = false, .cache = cache});
    EXPECT_TRUE(place.ok()) << place.status();
    ModelRunOptions options;
    options.model = model_.model();
    options.weights = weights;
    options.chunk = 4;
    auto run = ModelRun::Load(options, *place);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return loaded;
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    loaded.totals = place->bank->Totals();
    loaded.imported = place->memory->Usage().imported_bytes;
    loaded.ids = GeneratedIds(**run, 6);
    if (cache != nullptr) {
      const absl::Status saved = cache->Save();
      EXPECT_TRUE(saved.ok()) << saved;
    }
    return loaded;
  }
  // Of all tensors in the files.
  uint64_t StoredBytes() const {
    const auto checkpoint = Checkpoint::Open(model_.model());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    uint64_t bytes = 0;
    for (const StoredTensor& tensor : (*checkpoint)->index()->tensors()) {
      bytes += tensor.type.bytes();
    }
    return bytes;
  }

  const NpuSwitches switches_{{{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", "1"},
                               {"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                               // Tiles of 64 KiB round a model of 12 MB by 3 %, one of 600 MB by nothing.
                               {"NPUBANK_NPU_TILE_SIZE", "4K"},
                               {"NPUBANK_NPU_IMPORT", "1"}}};
  const TestModel model_{ShapeOf(GetParam())};
};

TEST_P(StoredSizeTest, DeviceAndImportedBytesAreTheStoredOnes) {
  const double stored = static_cast<double>(StoredBytes());
  std::vector<int32_t> ids;
  for (const WeightFormat weights : {WeightFormat::kKeep, WeightFormat::kPacked, WeightFormat::kAuto}) {
    for (const MemoryStrategy strategy :
         {MemoryStrategy::kImported, MemoryStrategy::kTiled, MemoryStrategy::kPlaced}) {
      const Loaded loaded = Load(weights, strategy);
      const auto device = static_cast<double>(loaded.totals.device_bytes + loaded.imported);
      EXPECT_LE(device / stored, 1.02) << GetParam().name;
      EXPECT_GE(device / stored, 0.97) << GetParam().name;
      EXPECT_EQ(loaded.totals.hits * 2, loaded.totals.registrations) << "prefill and kvcache share all";
      if (weights != WeightFormat::kPacked) {
        EXPECT_EQ(loaded.totals.transformations, 0u);
      }
      if (weights != WeightFormat::kPacked && strategy == MemoryStrategy::kImported) {
        EXPECT_EQ(loaded.totals.device_bytes, 0u) << "nothing is copied";
      }
      if (ids.empty()) ids = loaded.ids;
      EXPECT_EQ(loaded.ids, ids) << "the same values, whichever way they lie";
      std::printf("%-12s format %d, strategy %d: %.4f of the stored bytes\n", GetParam().name,
                  static_cast<int>(weights), static_cast<int>(strategy), device / stored);
    }
  }
}

// Planes are made once; each part lies in the cache by itself.
TEST_P(StoredSizeTest, PlanesComeFromTheCacheOnTheNextStart) {
  const std::string path = model_.file("cache");
  const auto load = [&] {
    return Load(WeightFormat::kPacked, MemoryStrategy::kPlaced, CacheFile::Open({.path = path}));
  };
  const Loaded first = load();
  const Loaded second = load();
  EXPECT_EQ(second.totals.transformations, 0u);
  EXPECT_EQ(second.totals.cache_hits, first.totals.transformations);
  EXPECT_EQ(second.totals.device_bytes, first.totals.device_bytes);
  EXPECT_EQ(second.ids, first.ids);
}

INSTANTIATE_TEST_SUITE_P(Formats, StoredSizeTest,
                         ::testing::Values(Stored{"gguf_q4_0", CheckpointFormat::kGgufQ4_0},
                                           Stored{"gguf_q4_k_mix", CheckpointFormat::kGgufQ4_K},
                                           Stored{"gguf_q6_k", CheckpointFormat::kGgufQ6_K},
                                           Stored{"gguf_q8_0", CheckpointFormat::kGgufQ8_0},
                                           Stored{"gptq", CheckpointFormat::kGptq},
                                           Stored{"gptq_act_order", CheckpointFormat::kGptqActOrder},
                                           Stored{"gptq_8bit", CheckpointFormat::kGptq8},
                                           Stored{"awq", CheckpointFormat::kAwq},
                                           Stored{"int8", CheckpointFormat::kInt8},
                                           Stored{"pack_int8", CheckpointFormat::kPackInt8},
                                           Stored{"pack_int4", CheckpointFormat::kPackInt4},
                                           Stored{"f32", CheckpointFormat::kSafetensors, ElementType::kF32},
                                           Stored{"f16", CheckpointFormat::kSafetensors, ElementType::kF16},
                                           Stored{"bf16", CheckpointFormat::kSafetensors},
                                           Stored{"bf16_sharded", CheckpointFormat::kSafetensors,
                                                  ElementType::kBF16, 3}),
                         [](const auto& format) { return std::string(format.param.name); });

}  // namespace
}  // namespace npubank

// Files as others write them, imported where they lie: data at any residue, and what the device wants of
// addresses from nothing to a page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/tests/integration/generated_ids.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/test_model.h"
#include "npubank/tools/run/model_run.h"

namespace npubank {
namespace {

constexpr uint64_t kPage = 4096;

// A model whose data begins at any residue: its header is as long as that takes.
class ShiftedModel {
 public:
  explicit ShiftedModel(const CheckpointShape& shape) : model_(shape) {}

  void MoveDataTo(uint64_t residue) {
    const std::string path = model_.file("model.safetensors");
    const std::string bytes = ReadWholeFile(path);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    std::string header = bytes.substr(8, length);
    header.erase(header.find_last_not_of(' ') + 1);
    while ((8 + header.size()) % 64 != residue) header += ' ';
    const uint64_t padded = header.size();
    WriteWholeFile(path, std::string(reinterpret_cast<const char*>(&padded), 8) + header +
                             bytes.substr(8 + length));
  }

  std::string model() const { return model_.model(); }
  std::string file(const std::string& name) const { return model_.file(name); }

  // Bytes of the tensors that may be arguments where they lie, and of all.
  struct Bytes {
    uint64_t aligned = 0;
    uint64_t all = 0;
    uint64_t misaligned_tensors = 0;
  };
  Bytes Count(uint64_t alignment) const {
    Bytes bytes;
    const auto checkpoint = Checkpoint::Open(model());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    for (const StoredTensor& tensor : (*checkpoint)->index()->tensors()) {
      const uint64_t size = tensor.type.bytes();
      const auto element = static_cast<uint64_t>(BitWidth(tensor.type.element()) / 8);
      const bool fits = tensor.offset % std::max(alignment, element) == 0;
      bytes.all += size;
      fits ? bytes.aligned += size : bytes.misaligned_tensors += 1;
    }
    return bytes;
  }

 private:
  TestModel model_;
};

class ZeroCopyTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  struct Loaded {
    std::vector<int32_t> ids;
    BankTotals totals;
    DeviceUsage usage;
    uint64_t copied = 0;  // by the driver
    uint64_t imports = 0;
  };
  Loaded Load(const std::string& model, MemoryStrategy strategy,
              std::shared_ptr<CacheFile> cache = nullptr) const {
    Loaded loaded;
    auto place = BankPlace::Open(level_zero::DeviceChoice::kSoftware, /*workers=*/2,
                                 {.strategy = strategy},
                                 // Comparing contents would read what was copied back.
                                 {.share_content = false, .cache = cache});
    EXPECT_TRUE(place.ok()) << place.status();
    const auto& software = *place->device->software();
    const uint64_t copied = DriverStatistics(software).copied_bytes;
    ModelRunOptions options;
    options.model = model;
    options.weights = WeightFormat::kAuto;
    options.chunk = 4;
    auto run = ModelRun::Load(options, *place);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return loaded;
    loaded.totals = place->bank->Totals();
    loaded.usage = place->memory->Usage();
    loaded.copied = DriverStatistics(software).copied_bytes - copied;
    loaded.imports = DriverStatistics(software).live_imports;
    loaded.ids = GeneratedIds(**run);
    if (cache != nullptr) {
      const absl::Status saved = cache->Save();
      EXPECT_TRUE(saved.ok()) << saved;
    }
    return loaded;
  }

  const NpuSwitches switches_{{{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", absl::StrCat(GetParam())},
                               {"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                               {"NPUBANK_NPU_IMPORT", "1"},
                               {"NPUBANK_NPU_HOST_ACCESS", "0"}}};
};

CheckpointShape Shape(int64_t hidden, ElementType element) {
  CheckpointShape shape = TinyShape();
  shape.layers = 1;
  shape.hidden = hidden;
  shape.element = element;
  return shape;
}

TEST_P(ZeroCopyTest, DataAtAnyResidueIsImportedWhereTheDeviceTakesIt) {
  ShiftedModel model(Shape(64, ElementType::kBF16));
  const std::vector<int32_t> ids = Load(model.model(), MemoryStrategy::kPlaced).ids;
  for (uint64_t residue = 0; residue < 64; ++residue) {
    SCOPED_TRACE(residue);
    model.MoveDataTo(residue);
    const ShiftedModel::Bytes expected = model.Count(GetParam());
    const Loaded loaded = Load(model.model(), MemoryStrategy::kImported);
    EXPECT_EQ(loaded.ids, ids);
    EXPECT_EQ(loaded.usage.imported_bytes, expected.aligned);
    EXPECT_EQ(loaded.totals.misaligned, expected.misaligned_tensors);
    EXPECT_EQ(loaded.totals.misaligned_bytes, expected.all - expected.aligned);
    EXPECT_EQ(loaded.copied, expected.all - expected.aligned) << "by the driver's own count";
    EXPECT_LE(loaded.usage.pinned_bytes, expected.aligned + 2 * kPage * loaded.imports);
  }
}

// Norms of 72 numbers: what comes after one lies off the multiples of 64, until another makes up for it.
TEST_P(ZeroCopyTest, OneMisalignedTensorAmongManyIsCopiedAndTheOthersAreNot) {
  CheckpointShape shape = Shape(72, ElementType::kF16);
  shape.heads = 3;
  shape.kv_heads = 1;
  shape.layers = 6;
  ShiftedModel model(shape);
  model.MoveDataTo(0);
  const ShiftedModel::Bytes expected = model.Count(GetParam());
  if (GetParam() == 64) {
    EXPECT_GT(expected.misaligned_tensors, 0u);
    EXPECT_GT(expected.aligned, 0u);
  }
  const Loaded loaded = Load(model.model(), MemoryStrategy::kImported);
  EXPECT_EQ(loaded.ids, Load(model.model(), MemoryStrategy::kPlaced).ids);
  EXPECT_EQ(loaded.usage.imported_bytes, expected.aligned);
  EXPECT_EQ(loaded.totals.misaligned_bytes, expected.all - expected.aligned);
  EXPECT_EQ(loaded.copied, expected.all - expected.aligned);
}

TEST_P(ZeroCopyTest, WithACacheTheSecondStartCopiesNothing) {
  ShiftedModel model(Shape(64, ElementType::kBF16));
  const std::vector<int32_t> ids = Load(model.model(), MemoryStrategy::kPlaced).ids;
  for (const uint64_t residue : {0, 8, 33, 56}) {
    SCOPED_TRACE(residue);
    model.MoveDataTo(residue);
    const std::string path = model.file(absl::StrCat("cache", residue));
    const Loaded first =
        Load(model.model(), MemoryStrategy::kImported, CacheFile::Open({.path = path}));
    EXPECT_EQ(first.ids, ids);
    const Loaded second =
        Load(model.model(), MemoryStrategy::kImported, CacheFile::Open({.path = path}));
    EXPECT_EQ(second.ids, ids);
    EXPECT_EQ(second.copied, 0u);
    EXPECT_EQ(second.usage.imported_bytes, second.totals.unique_bytes);
    EXPECT_EQ(second.totals.misaligned, 0u);
    EXPECT_EQ(second.totals.cache_hits, first.totals.misaligned);
  }
}

// Where nothing is imported, where it lies makes no difference, and nothing is said of it.
TEST_P(ZeroCopyTest, ADeviceThatImportsNothingIsToldNothing) {
  ShiftedModel model(Shape(64, ElementType::kBF16));
  model.MoveDataTo(8);
  const Loaded loaded = Load(model.model(), MemoryStrategy::kTiled);
  EXPECT_EQ(loaded.totals.misaligned, 0u);
  EXPECT_EQ(loaded.totals.device_bytes >= loaded.totals.unique_bytes, true);
}

INSTANTIATE_TEST_SUITE_P(Multiples, ZeroCopyTest, ::testing::Values(1, 16, 64, 4096));

}  // namespace
}  // namespace npubank

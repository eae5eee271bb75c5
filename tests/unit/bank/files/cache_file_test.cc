// The cache file on its own, and behind a bank: what is found in it, and what is added.
#include "npubank/bank/files/cache_file.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "npubank/bank/loading/evaluator.h"
#include "npubank/tests/support/system/file_faults.h"
#include "npubank/tests/unit/bank/files/cache_file_fixture.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CacheFileTest, AWarmStartTransformsNothing) {
  const Loaded cold = Load(weights_);
  EXPECT_EQ(cold.totals.transformations, kTransformed);
  EXPECT_EQ(cold.report.unsaved, kTransformed);
  const Loaded warm = Load(weights_);
  EXPECT_EQ(warm.totals.transformations, 0u);
  EXPECT_EQ(warm.totals.cache_hits, kTransformed);
  EXPECT_EQ(warm.totals.evaluations, weights_.size());
  EXPECT_THAT(warm.report.problems, IsEmpty());
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(CacheFileTest, AFullHitWritesNothing) {
  Load(weights_);
  const auto before = std::filesystem::last_write_time(path_);
  Load(weights_);
  EXPECT_EQ(std::filesystem::last_write_time(path_), before);
}

TEST_F(CacheFileTest, MissesAreAppendedToWhatIsThere) {
  const TestWeights other(3, /*variant=*/1);
  Load(weights_);
  EXPECT_EQ(Load(other).totals.transformations, kTransformed);
  EXPECT_EQ(Load(weights_).totals.transformations, 0u);
  EXPECT_EQ(Load(other).totals.transformations, 0u);
}

TEST_F(CacheFileTest, PayloadsLieOnPagesSoThatTheyCanBeImported) {
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  size_t found = 0;
  for (const LazyTensor& tensor : weights_.Submodel()) {
    const auto cached =
        cache->Find(CacheKey(tensor.digest(), tensor.stamp()), tensor.type().bytes());
    if (!cached.has_value()) continue;
    ++found;
    EXPECT_EQ(cached->offset % CacheFile::kAlignment, 0u);
    EXPECT_TRUE(CheckPayload(*cached).ok());
  }
  EXPECT_EQ(found, kTransformed);
}

TEST_F(CacheFileTest, WakingTakesTheCacheAndNotTheSource) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill", {.index = weights_.Index()});
  const std::vector<Uid> uids = RegisterAll(*bank, owner, weights_);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  ASSERT_TRUE(cache->Save().ok());
  ASSERT_TRUE(bank->Sleep(owner).ok());
  EXPECT_EQ(bank->Totals().device_bytes, 0u);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().transformations, kTransformed) << "those of the load";
  EXPECT_EQ(bank->Totals().cache_hits, kTransformed);
  std::vector<std::byte> bytes(weights_.Expected(0).size());
  ASSERT_TRUE(bank->Read(uids[0], 0, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, weights_.Expected(0));
}

TEST_F(CacheFileTest, WhatIsAddedIsFoundAtOnceAndStaysReadable) {
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 5000, Fill(1)).ok());
  ASSERT_TRUE(cache->Add(Digest{2, 2}, 3000000, Fill(2)).ok());
  const std::optional<CachedBytes> added = cache->Find(Digest{2, 2}, 3000000);
  ASSERT_TRUE(added.has_value());
  EXPECT_TRUE(CheckPayload(*added).ok()) << CheckPayload(*added);
  EXPECT_FALSE(cache->Find(Digest{2, 2}, 3000001).has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition(added->file->View(0, 4096).status()))
      << "a file that is still written is read, not mapped or imported";
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_TRUE(CheckPayload(*added).ok()) << "as the file that it has become";
  const CachedBytes saved = cache->Find(Digest{2, 2}, 3000000).value();
  EXPECT_TRUE(CheckPayload(saved).ok());
  EXPECT_TRUE(saved.file->View(0, 4096).ok());
}

TEST_F(CacheFileTest, WhatIsAddedFromMemoryAndWrittenDirectlyIsFoundAndSaved) {
  constexpr uint64_t kBytes = 300001;
  struct alignas(CacheFile::kAlignment) Room {
    std::byte bytes[kBytes];
  };
  const auto room = std::make_unique<Room>();
  ASSERT_TRUE(Fill(7)(0, absl::MakeSpan(room->bytes)).ok());
  const auto next = [&](uint64_t offset) -> absl::StatusOr<absl::Span<const std::byte>> {
    return absl::MakeConstSpan(room->bytes).subspan(offset, 8 * CacheFile::kAlignment);
  };
  const auto nothing = [](uint64_t) { return absl::Span<const std::byte>(); };
  const auto cache = CacheFile::Open({.path = path_, .write_directly = true});
  ASSERT_EQ(cache->Add(Digest{1, 1}, kBytes, next), absl::OkStatus());
  EXPECT_TRUE(absl::IsInternal(cache->Add(Digest{2, 2}, kBytes, nothing)));
  for (int saved : {0, 1}) {
    const std::optional<CachedBytes> added = cache->Find(Digest{1, 1}, kBytes);
    ASSERT_TRUE(added.has_value()) << saved;
    EXPECT_EQ(CheckPayload(*added), absl::OkStatus());
    std::vector<std::byte> found(kBytes);
    ASSERT_EQ(ReadPayload(*added, 0, absl::MakeSpan(found)), absl::OkStatus());
    EXPECT_TRUE(std::equal(found.begin(), found.end(), room->bytes));
    EXPECT_FALSE(cache->Find(Digest{2, 2}, kBytes).has_value());
    ASSERT_EQ(cache->Save(), absl::OkStatus());
  }
}

TEST_F(CacheFileTest, WhatComesBackInTheSameRunIsNeitherTransformedNorAddedAgain) {
  Load(weights_);
  const auto size_of_one_load = std::filesystem::file_size(path_);
  ASSERT_TRUE(std::filesystem::remove(path_));
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank =
      Bank::Create(std::make_shared<HostMemory>(), {.share_content = false, .cache = cache});
  const Owner owner = bank->AddOwner("prefill", {.index = weights_.Index()});
  const std::vector<Uid> uids = RegisterAll(*bank, owner, weights_);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(bank->Sleep(owner).ok());
    ASSERT_EQ(bank->Totals().device_bytes, 0u);
    ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  }
  EXPECT_EQ(bank->Totals().transformations, kTransformed);
  EXPECT_EQ(bank->Totals().cache_hits, 5 * kTransformed);
  for (size_t i = 0; i < uids.size(); ++i) {
    std::vector<std::byte> bytes(weights_.Expected(i).size());
    ASSERT_TRUE(bank->Read(uids[i], 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, weights_.Expected(i)) << i;
  }
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_EQ(std::filesystem::file_size(path_), size_of_one_load);
}

TEST_F(CacheFileTest, TwoModelsInTurnOnASmallBudgetAreTransformedOnce) {
  const TestWeights other(3);
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(
      std::make_shared<HostMemory>(),
      {.budget_bytes = weights_.size() * 4096, .share_content = false, .cache = cache});
  const Owner first = bank->AddOwner("first", {.index = weights_.Index()});
  const Owner second = bank->AddOwner("second", {.index = other.Index()});
  RegisterAll(*bank, first, weights_);
  RegisterAll(*bank, second, other);
  uintmax_t draft_size = 0;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(bank->EvaluateAndAllocate(first).ok());
    ASSERT_TRUE(bank->EvaluateAndAllocate(second).ok());
    if (round == 0) draft_size = std::filesystem::file_size(DraftPath());
  }
  EXPECT_GE(bank->Totals().evictions, 5 * weights_.size()) << "each pushes the other out";
  EXPECT_EQ(bank->Totals().transformations, 2 * kTransformed);
  EXPECT_EQ(std::filesystem::file_size(DraftPath()), draft_size);
}

TEST_F(CacheFileTest, WhatIsThereOrBeingAddedIsNotWrittenASecondTime) {
  const auto cache = CacheFile::Open({.path = path_});
  int reads = 0;
  const auto count = [&](uint64_t, absl::Span<std::byte>) {
    ++reads;
    return absl::OkStatus();
  };
  const auto status =
      cache->Add(Digest{1, 1}, 100, [&](uint64_t offset, absl::Span<std::byte> out) {
        EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, count).ok()) << "while the first is at it";
        return Fill(7)(offset, out);
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, count).ok());
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, count).ok());
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(cache->Report().unsaved, 0u);
  EXPECT_TRUE(CheckPayload(cache->Find(Digest{1, 1}, 100).value()).ok());
}

TEST_F(CacheFileTest, WhatCouldNotBeAddedMayBeTriedAgain) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto lost = [](uint64_t, absl::Span<std::byte>) { return absl::UnavailableError("lost"); };
  EXPECT_TRUE(absl::IsUnavailable(cache->Add(Digest{1, 1}, 100, lost)));
  EXPECT_FALSE(cache->Find(Digest{1, 1}, 100).has_value());
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  EXPECT_TRUE(cache->Find(Digest{1, 1}, 100).has_value());
}

TEST_F(CacheFileTest, WhatIsDamagedBeforeTheSaveIsTransformedAndAddedAgain) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank =
      Bank::Create(std::make_shared<HostMemory>(), {.share_content = false, .cache = cache});
  const Owner owner = bank->AddOwner("prefill", {.index = weights_.Index()});
  RegisterAll(*bank, owner, weights_);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  std::fstream draft(DraftPath(), std::ios::binary | std::ios::in | std::ios::out);
  draft.seekp(CacheFile::kAlignment + 5);
  draft.put('x');
  draft.close();
  ASSERT_TRUE(bank->Sleep(owner).ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().transformations, kTransformed + 1);
  EXPECT_THAT(cache->Report().problems, ElementsAre(HasSubstr("not what was written")));
  ASSERT_TRUE(cache->Save().ok());
  const CacheReport saved = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(saved.entries, kTransformed);
  EXPECT_THAT(saved.problems, IsEmpty());
}

TEST_F(CacheFileTest, WhatIsDistrustedBeforeTheSaveIsNotSaved) {
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  ASSERT_TRUE(cache->Add(Digest{2, 2}, 100, Fill(2)).ok());
  cache->Distrust(Digest{1, 1}, absl::DataLossError("not what was written"));
  EXPECT_EQ(cache->Report().unsaved, 1u);
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_FALSE(cache->Find(Digest{1, 1}, 100).has_value());
  const auto saved = CacheFile::Open({.path = path_});
  EXPECT_FALSE(saved->Find(Digest{1, 1}, 100).has_value());
  EXPECT_TRUE(saved->Find(Digest{2, 2}, 100).has_value());
}

TEST_F(CacheFileTest, AMissingFileIsAnEmptyCacheAndNoProblem) {
  EXPECT_THAT(CacheFile::Open({.path = path_})->Report().problems, IsEmpty());
}

TEST_F(CacheFileTest, APayloadThatTheSystemFailsToReadIsEvaluatedAgain) {
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  const auto memory = std::make_shared<HostMemory>();
  const LazyTensor tensor = weights_.Submodel()[0];
  const CachedBytes cached =
      cache->Find(CacheKey(tensor.digest(), tensor.stamp()), tensor.type().bytes()).value();
  {
    const FileFault fault(FileFault::kRead, 1, EIO);
    const absl::Status status = CheckPayload(cached);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
  const FileFault fault(FileFault::kRead, 1, EIO);
  const absl::Status status = Evaluator(memory, nullptr).Fetch(cached, {.name = "wq", .hints = {}}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << "which the bank takes for a miss: " << status;
  EXPECT_EQ(memory->Usage().live_allocations, 0u);
}

TEST_F(CacheFileTest, ADeviceThatIsLostIsNotTheCachesFault) {
  class LostOnce : public HostMemory {
   public:
    absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
      if (!std::exchange(lost_, true)) return absl::UnavailableError("the device was lost");
      return HostMemory::Write(memory, produce);
    }

   private:
    bool lost_ = false;
  };
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank =
      Bank::Create(std::make_shared<LostOnce>(), {.share_content = false, .cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  RegisterAll(*bank, owner, weights_);
  const absl::Status status = bank->EvaluateAndAllocate(owner);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(cache->Report().problems, IsEmpty());
  EXPECT_EQ(cache->Report().entries, kTransformed);
  EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().cache_hits, kTransformed);
  EXPECT_EQ(bank->Totals().transformations, 0u);
}

TEST_F(CacheFileTest, WhatIsStoredAsItIsNeedsNoSecondCopy) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  const TensorType type = TensorType::Create(ElementType::kU8, Shape::Create({64}).value()).value();
  const auto file = Source::OpenFile(weights_.path()).value();
  ASSERT_TRUE(bank->Register(owner, LazyTensor::Constant(file, 0, type, "w").value(), "w").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().evaluations, 1u);
  EXPECT_EQ(bank->Totals().transformations, 0u);
  EXPECT_EQ(cache->Report().unsaved, 0u);
}

TEST_F(CacheFileTest, BuffersInMemoryAreNotKept) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  const TensorType type = TensorType::Create(ElementType::kF32, Shape::Create({6}).value()).value();
  const LazyTensor half =
      LazyTensor::Constant(Source::FromBuffer(CountingFloats(6), "buffer"), 0, type, "w")
          .value()
          .Convert(ElementType::kF16)
          .value();
  ASSERT_TRUE(bank->Register(owner, half, "w").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().transformations, 1u);
  EXPECT_EQ(cache->Report().unsaved, 0u);
}

}  // namespace
}  // namespace npubank

// The cache file on its own, and behind a bank: what it saves, and what a failure leaves as it was.
#include "npubank/bank/files/cache_file.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/loading/evaluator.h"
#include "npubank/tests/support/system/file_faults.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/unit/bank/files/cache_file_fixture.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// Room for the seal, `payloads` of a page each, and their index.
uint64_t LimitFor(uint64_t payloads) { return (payloads + 1) * CacheFile::kAlignment + 1024; }

class CacheLimitTest : public CacheFileTest {
 protected:
  // A run that uses `used` and adds `added`, each a page.
  absl::Status Run(uint64_t limit, const std::vector<uint64_t>& used,
                   const std::vector<uint64_t>& added) {
    const auto cache = CacheFile::Open({.path = path_, .limit_bytes = limit});
    EXPECT_THAT(cache->Report().problems, IsEmpty());
    for (const uint64_t i : used) {
      EXPECT_TRUE(cache->Find(Digest{i, i}, kPage).has_value()) << i;
    }
    for (const uint64_t i : added) {
      const absl::Status status = cache->Add(Digest{i, i}, kPage, Fill(static_cast<char>(i)));
      if (!status.ok()) return status;
    }
    const absl::Status saved = cache->Save();
    EXPECT_LE(std::filesystem::file_size(path_), limit);
    return saved;
  }
  // What is in the file, and whole.
  std::vector<uint64_t> Kept() const {
    const auto cache = CacheFile::Open({.path = path_, .verify_at_open = true});
    EXPECT_THAT(cache->Report().problems, IsEmpty());
    std::vector<uint64_t> kept;
    for (uint64_t i = 1; i < 10; ++i) {
      if (cache->Find(Digest{i, i}, kPage).has_value()) kept.push_back(i);
    }
    return kept;
  }

  static constexpr uint64_t kPage = CacheFile::kAlignment;
};

TEST_F(CacheLimitTest, WhatWasUsedLongestAgoGoesFirst) {
  ASSERT_TRUE(Run(LimitFor(3), {}, {1}).ok());
  ASSERT_TRUE(Run(LimitFor(3), {}, {2}).ok());
  ASSERT_TRUE(Run(LimitFor(3), {}, {3}).ok());
  EXPECT_THAT(Kept(), ElementsAre(1, 2, 3));
  ASSERT_TRUE(Run(LimitFor(3), {1}, {}).ok());
  ASSERT_TRUE(Run(LimitFor(3), {}, {4}).ok());
  EXPECT_THAT(Kept(), ElementsAre(1, 3, 4)) << "1 was used after 2 and 3";
  ASSERT_TRUE(Run(LimitFor(3), {3}, {5}).ok());
  EXPECT_THAT(Kept(), ElementsAre(3, 4, 5));
}

TEST_F(CacheLimitTest, ARunThatUsesWhatTheLastOneUsedWritesNothing) {
  ASSERT_TRUE(Run(LimitFor(3), {}, {1}).ok());
  ASSERT_TRUE(Run(LimitFor(3), {}, {2}).ok());
  const auto written = std::filesystem::last_write_time(path_);
  const std::string before = ReadAll(path_);
  ASSERT_TRUE(Run(LimitFor(3), {2}, {}).ok());
  EXPECT_EQ(std::filesystem::last_write_time(path_), written);
  ASSERT_TRUE(Run(LimitFor(3), {1}, {}).ok());
  EXPECT_NE(ReadAll(path_), before) << "another order";
}

TEST_F(CacheLimitTest, ASmallerLimitShrinksTheFile) {
  ASSERT_TRUE(Run(LimitFor(4), {}, {1, 2}).ok());
  ASSERT_TRUE(Run(LimitFor(4), {}, {3}).ok());
  ASSERT_TRUE(Run(LimitFor(1), {}, {}).ok());
  EXPECT_THAT(Kept(), ElementsAre(3));
}

TEST_F(CacheLimitTest, WhatARunAddsBeyondTheLimitIsNotAddedAndTheRestIsSaved) {
  const auto cache = CacheFile::Open({.path = path_, .limit_bytes = LimitFor(2)});
  for (const uint64_t i : {1, 2, 3, 4}) {
    const absl::Status status = cache->Add(Digest{i, i}, kPage, Fill(1));
    EXPECT_EQ(status.ok(), i <= 2) << status;
    EXPECT_EQ(absl::IsResourceExhausted(status), i > 2) << status;
  }
  const std::vector<std::string> problems = cache->Report().problems;
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0], problems[1]) << "so that a program says it once";
  EXPECT_THAT(problems[0], HasSubstr("limit"));
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_LE(std::filesystem::file_size(path_), LimitFor(2));
  EXPECT_THAT(Kept(), ElementsAre(1, 2));
}

TEST_F(CacheLimitTest, WithoutALimitEverythingStays) {
  for (const uint64_t i : {1, 2, 3, 4, 5}) {
    const auto cache = CacheFile::Open({.path = path_});
    ASSERT_TRUE(cache->Add(Digest{i, i}, kPage, Fill(1)).ok());
    ASSERT_TRUE(cache->Save().ok());
  }
  EXPECT_THAT(Kept(), ElementsAre(1, 2, 3, 4, 5));
}

// Whichever write meets the full disk: the load goes on, and the next run has a cache again.
TEST_F(CacheFileTest, AFullDiskCostsNoMoreThanTheCache) {
  bool failed = true;
  for (uint64_t nth = 1; failed; ++nth) {
    SCOPED_TRACE(nth);
    ASSERT_LT(nth, 100u);
    const auto cache = CacheFile::Open({.path = path_});
    const auto bank =
        Bank::Create(std::make_shared<HostMemory>(), {.share_content = false, .cache = cache});
    const Owner owner = bank->AddOwner("prefill", {.index = weights_.Index()});
    RegisterAll(*bank, owner, weights_);
    const FileFault full(FileFault::kWrite, nth, ENOSPC);
    EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
    const bool saved = cache->Save().ok();
    failed = full.happened();
    const bool told = !saved || cache->Report().problems.size() == 1;
    EXPECT_EQ(told, failed);
    std::filesystem::remove(path_);
    EXPECT_EQ(FilesInFolder(), 0u);
  }
}

TEST_F(CacheFileTest, ASaveThatFailsForgetsWhatWasAddedAndGivesItsRoomBack) {
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  ASSERT_TRUE(std::filesystem::create_directory(path_));  // nothing is renamed over a folder
  EXPECT_FALSE(cache->Save().ok());
  EXPECT_FALSE(cache->Find(Digest{1, 1}, 100).has_value());
  ASSERT_TRUE(std::filesystem::remove(path_));
  EXPECT_EQ(FilesInFolder(), 0u);
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  EXPECT_TRUE(cache->Save().ok());
  EXPECT_EQ(CacheFile::Open({.path = path_})->Report().entries, 1u);
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
  const absl::Status status = Evaluator(memory, nullptr).Fetch(cached, "wq").status();
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

TEST_F(CacheFileTest, ASaveWhoseWritingFailsAnywhereFailsAndLeavesTheOldFile) {
  Load(weights_);
  const std::string before = ReadAll(path_);
  bool failed = true;
  for (uint64_t nth = 1; failed; ++nth) {
    SCOPED_TRACE(nth);
    ASSERT_LT(nth, 100u);
    const auto cache = CacheFile::Open({.path = path_});
    ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
    const FileFault fault(FileFault::kWrite, nth, EIO);
    const absl::Status status = cache->Save();
    failed = fault.happened();
    EXPECT_EQ(status.ok(), !failed) << status;
    if (failed) {
      EXPECT_TRUE(ReadAll(path_) == before) << "the old file is as it was";
    }
    EXPECT_EQ(FilesInFolder(), 1u);
  }
  const CacheReport report = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(report.entries, kTransformed + 1);
}

TEST_F(CacheFileTest, ASaveTakesAlongWhatItCanReadOfTheOldFile) {
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  const FileFault fault(FileFault::kRead, 5, EIO);  // seal, index, two payloads, and this one
  EXPECT_TRUE(cache->Save().ok());
  EXPECT_TRUE(fault.happened());
  EXPECT_EQ(cache->Report().entries, kTransformed - 1 + 1);
  EXPECT_THAT(CacheFile::Open({.path = path_, .verify_at_open = true})->Report().problems,
              IsEmpty());
}

TEST_F(CacheFileTest, ASaveLeavesOutWhatWasDamagedInTheOldFile) {
  Load(weights_);
  std::fstream old(path_, std::ios::binary | std::ios::in | std::ios::out);
  old.seekp(CacheFile::kAlignment + 5);
  old.put('x');
  old.close();
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  EXPECT_EQ(cache->Save(), absl::OkStatus());
  const CacheReport saved = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(saved.entries, kTransformed - 1 + 1);
  EXPECT_THAT(saved.problems, IsEmpty());
}

// What was copied before its damage showed lies behind what is kept.
TEST_F(CacheFileTest, ASaveAfterWhichNothingOldIsLeftIsRead) {
  Load(weights_);
  std::fstream old(path_, std::ios::binary | std::ios::in | std::ios::out);
  for (uint64_t i = 1; i <= kTransformed; ++i) {
    old.seekp(static_cast<std::streamoff>(i * CacheFile::kAlignment + 5));
    old.put('x');
  }
  old.close();
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  EXPECT_EQ(cache->Save(), absl::OkStatus());
  const CacheReport saved = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(saved.entries, 1u);
  EXPECT_THAT(saved.problems, IsEmpty());
}

TEST_F(CacheFileTest, AProcessThatStopsBeforeTheSaveLeavesTheOldFile) {
  Load(weights_);
  const std::string before = ReadAll(path_);
  {
    const auto cache = CacheFile::Open({.path = path_});
    ASSERT_TRUE(cache->Add(Digest{5, 5}, 4, Fill(1)).ok());
    EXPECT_EQ(FilesInFolder(), 1u) << "what is added has no name";
  }
  EXPECT_EQ(FilesInFolder(), 1u);
  EXPECT_EQ(ReadAll(path_), before);
  // One that was killed leaves its temporary file, half written: nobody looks at it.
  WriteAll(path_ + ".Ab12Cd", before.substr(0, before.size() / 2));
  EXPECT_EQ(Load(weights_).totals.transformations, 0u);
}

TEST_F(CacheFileTest, TwoThatAreOpenAtOnceKeepWhatEachHasAndLoseNothing) {
  const auto first = CacheFile::Open({.path = path_});
  const auto second = CacheFile::Open({.path = path_});
  ASSERT_TRUE(first->Add(Digest{1, 1}, 5000, Fill(1)).ok());
  ASSERT_TRUE(second->Add(Digest{2, 2}, 5000, Fill(2)).ok());
  ASSERT_TRUE(first->Save().ok());
  const CachedBytes held = first->Find(Digest{1, 1}, 5000).value();
  ASSERT_TRUE(second->Save().ok());
  EXPECT_TRUE(CheckPayload(held).ok()) << "the file that was renamed over is still there for it";
  const auto third = CacheFile::Open({.path = path_});
  EXPECT_EQ(third->Report().entries, 2u);
  EXPECT_TRUE(CheckPayload(third->Find(Digest{1, 1}, 5000).value()).ok());
  EXPECT_TRUE(CheckPayload(third->Find(Digest{2, 2}, 5000).value()).ok());
}

TEST_F(CacheFileTest, ManyThreadsAddAndSaveAndFindWhatTheyAdded) {
  const auto cache = CacheFile::Open({.path = path_});
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(cache->Add(Digest{thread, i}, 3000 + i, Fill(i)).ok());
        if (i % 8 == thread) {
          EXPECT_TRUE(cache->Save().ok());
        }
        for (uint64_t earlier = 0; earlier <= i; ++earlier) {
          const auto found = cache->Find(Digest{thread, earlier}, 3000 + earlier);
          ASSERT_TRUE(found.has_value()) << "before, during and after a save";
          ASSERT_TRUE(CheckPayload(*found).ok()) << CheckPayload(*found);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(cache->Save().ok());
  const CacheReport report = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(report.entries, 80u);
  EXPECT_THAT(report.problems, IsEmpty());
}

TEST_F(CacheFileTest, AFolderThatCannotBeWrittenFailsTheSaveAndNotTheLoad) {
  path_ = folder_.File("missing/weights.cache");
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  RegisterAll(*bank, owner, weights_);
  EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(cache->Report().problems.size(), kTransformed);
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

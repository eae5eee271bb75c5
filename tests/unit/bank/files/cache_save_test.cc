// A save: what a failure leaves as it was, and what two that save at once keep.
#include "npubank/bank/files/cache_file.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "npubank/tests/support/system/file_faults.h"
#include "npubank/tests/unit/bank/files/cache_file_fixture.h"

namespace npubank {
namespace {

using ::testing::IsEmpty;

using CacheSaveTest = CacheFileTest;

// Whichever write meets the full disk: the load goes on, and the next run has a cache again.
TEST_F(CacheSaveTest, AFullDiskCostsNoMoreThanTheCache) {
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

TEST_F(CacheSaveTest, ASaveThatFailsForgetsWhatWasAddedAndGivesItsRoomBack) {
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

TEST_F(CacheSaveTest, ASaveWhoseWritingFailsAnywhereFailsAndLeavesTheOldFile) {
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

TEST_F(CacheSaveTest, ASaveTakesAlongWhatItCanReadOfTheOldFile) {
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

// With all of the old damaged, what was copied before its damage showed lies behind what is kept.
TEST_F(CacheSaveTest, ASaveLeavesOutWhatWasDamagedInTheOldFile) {
  for (const uint64_t damaged : {uint64_t{1}, kTransformed}) {
    SCOPED_TRACE(damaged);
    std::filesystem::remove(path_);
    Load(weights_);
    std::fstream old(path_, std::ios::binary | std::ios::in | std::ios::out);
    for (uint64_t i = 1; i <= damaged; ++i) {
      old.seekp(static_cast<std::streamoff>(i * CacheFile::kAlignment + 5));
      old.put('x');
    }
    old.close();
    const auto cache = CacheFile::Open({.path = path_});
    ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
    EXPECT_EQ(cache->Save(), absl::OkStatus());
    const CacheReport saved = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
    EXPECT_EQ(saved.entries, kTransformed - damaged + 1);
    EXPECT_THAT(saved.problems, IsEmpty());
  }
}

TEST_F(CacheSaveTest, AProcessThatStopsBeforeTheSaveLeavesTheOldFile) {
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

TEST_F(CacheSaveTest, TwoThatAreOpenAtOnceKeepWhatEachHasAndLoseNothing) {
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

TEST_F(CacheSaveTest, ManyThreadsAddAndSaveAndFindWhatTheyAdded) {
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

TEST_F(CacheSaveTest, AFolderThatCannotBeWrittenFailsTheSaveAndNotTheLoad) {
  path_ = folder_.File("missing/weights.cache");
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  RegisterAll(*bank, owner, weights_);
  EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(cache->Report().problems.size(), kTransformed);
}

}  // namespace
}  // namespace npubank

// A cache file with a limit in bytes: what stays behind at a save.
#include "npubank/bank/files/cache_file.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "npubank/tests/unit/bank/files/cache_file_fixture.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

}  // namespace
}  // namespace npubank

#include "npubank/bank/service/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank::service {
namespace {

constexpr char kMounts2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
constexpr char kMounts1[] =
    "29 23 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 23 0:27 / /sys/fs/cgroup/memory rw shared:5 master:1 - cgroup cgroup rw,memory\n";

// A system with groups: its files in a folder.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(path)).parent_path());
    folder_.Write(path, text);
  }
  void Process(const std::string& cgroup, const std::string& mountinfo) {
    Write("proc/self/cgroup", cgroup);
    Write("proc/self/mountinfo", mountinfo);
  }
  void Group2(const std::string& path, const std::string& most, uint64_t used,
              uint64_t cached = 0) {
    const std::string folder = absl::StrCat("sys/fs/cgroup", path, "/memory.");
    Write(folder + "max", most + "\n");
    Write(folder + "current", absl::StrCat(used, "\n"));
    Write(folder + "stat",
          absl::StrCat("anon 5\nfile 9000\ninactive_file ", cached / 2, "\nactive_file ",
                       cached - cached / 2, "\nworkingset_refault_file 77\n"));
  }
  MemoryLimit Find() const { return MemoryLimit::Find(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(MemoryLimitTest, TheNarrowestGroupOnTheWayUpCounts) {
  Process("0::/user.slice/user-1000/npubankd.service\n", kMounts2);
  Group2("/user.slice/user-1000/npubankd.service", "max", 500);
  Group2("/user.slice/user-1000", "10000", 9000);
  Group2("/user.slice", "20000", 9500);
  EXPECT_EQ(Find().Bytes(), 10000u);
  EXPECT_EQ(Find().Room(), 1000u) << "what its neighbours use counts";
  Group2("/user.slice/user-1000/npubankd.service", "800", 500);
  EXPECT_EQ(Find().Room(), 300u);
}

TEST_F(MemoryLimitTest, PagesOfFilesAreRoom) {
  Process("0::/a\n", kMounts2);
  Group2("/a", "10000", 9900, 7001);
  EXPECT_EQ(Find().Room(), 7101u);
  Group2("/a", "10000", 12000, 1000);
  EXPECT_EQ(Find().Room(), 0u) << "over it already";
}

TEST_F(MemoryLimitTest, VersionOneIsReadWhereItHasTheMemory) {
  Process("9:name=systemd:/\n4:cpu,memory:/docker/1234\n0::/\n",
          std::string(kMounts1) + "32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n");
  Write("sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "8000\n");
  Write("sys/fs/cgroup/memory/docker/1234/memory.usage_in_bytes", "7000\n");
  Write("sys/fs/cgroup/memory/docker/1234/memory.stat", "active_file 1\ntotal_active_file 500\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Find().Bytes(), 8000u);
  EXPECT_EQ(Find().Room(), 1500u);
}

// The container's own view: a part of the hierarchy is mounted, or the path leads out of it.
TEST_F(MemoryLimitTest, InAContainerTheMountedPartCounts) {
  Process("0::/docker/1234/inner\n",
          "30 23 0:26 /docker/1234 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  Group2("/inner", "700", 100);
  Group2("", "900", 300);
  EXPECT_EQ(Find().Room(), 600u);
  Process("0::/../../elsewhere\n", kMounts2);
  EXPECT_EQ(Find().Bytes(), 900u);
}

TEST_F(MemoryLimitTest, WithoutAGroupOrALimitThereIsNone) {
  EXPECT_EQ(Find().Room(), MemoryLimit::kNone) << "no files at all";
  Process("0::/\n", kMounts2);
  EXPECT_EQ(Find().Room(), MemoryLimit::kNone) << "the root group has no limit";
  for (const char* text : {"max", "", "-1", "12x", "9223372036854771712", "99999999999999999999"}) {
    Group2("", text, 10);
    EXPECT_EQ(Find().Bytes(), MemoryLimit::kNone) << text;
    EXPECT_EQ(Find().Within(123), 123u) << text;
  }
}

TEST_F(MemoryLimitTest, ABudgetStaysWithinTheLimitAndLeavesSomeForAllElse) {
  Process("0::/\n", kMounts2);
  Group2("", "16000", 2000);
  EXPECT_EQ(Find().Within(1 << 20), 13000u);
  EXPECT_EQ(Find().Within(5000), 5000u);
  Group2("", "16000", 15999);
  EXPECT_EQ(Find().Within(5000), 0u);
}

TEST_F(MemoryLimitTest, SharedMemoryRefusesBeforeTheGroupIsFullAndGoesOnWhenThereIsRoom) {
  Process("0::/\n", kMounts2);
  Group2("", absl::StrCat(64 << 20), 1 << 20);
  const MemoryLimit limit = Find();
  const auto memory = SharedMemory::Create(
                          {.huge_pages = false, .room = [&] { return limit.Within(~uint64_t{0}); }})
                          .value();
  EXPECT_TRUE(memory->Allocate(20 << 20, "wq").ok());
  Group2("", absl::StrCat(64 << 20), 50 << 20);
  const auto refused = memory->Allocate(20 << 20, "wq");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("limit of memory"));
  EXPECT_EQ(memory->Usage().held_bytes, 0u);
  Group2("", absl::StrCat(128 << 20), 50 << 20);
  EXPECT_TRUE(memory->Allocate(20 << 20, "wq").ok());
  std::vector<std::unique_ptr<DeviceAllocation>> small;
  Group2("", absl::StrCat(128 << 20), 127 << 20);
  while (small.size() < 100000) {
    auto made = memory->Allocate(4096, "norm");
    if (!made.ok()) break;
    small.push_back(*std::move(made));
  }
  EXPECT_LE(small.size() * 4096, SharedMemory::kUncheckedBytes) << "many small ones are seen too";
}

TEST(MemoryGroups, WhateverTheTextsAreTheFoldersLieInTheMountAndAreFew) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  const std::string deep = absl::StrCat("0::", std::string(5000, '/'), "a\n");
  EXPECT_LE(MemoryGroups(deep, kMounts2).size(), kMostGroups);
  const std::string alphabet = "0:/memory,.- \n\\cgroup2";
  for (int round = 0; round < Repetitions(20000); ++round) {
    std::string cgroup = "4:memory:/a/b\n0::/c/d\n", mounts = std::string(kMounts1) + kMounts2;
    for (std::string* text : {&cgroup, &mounts}) {
      for (uint64_t i = random() % 6; i > 0; --i) {
        const size_t at = random() % text->size();
        const char with = alphabet[random() % alphabet.size()];
        text->replace(at, random() % 2, 1, with);
      }
    }
    const auto groups = MemoryGroups(cgroup, mounts);
    ASSERT_LE(groups.size(), kMostGroups) << "seed " << seed;
    for (const MemoryGroup& group : groups) {
      ASSERT_EQ(group.folder[0], '/') << "seed " << seed;
      ASSERT_TRUE(group.version == 1 || group.version == 2);
    }
  }
}

}  // namespace
}  // namespace npubank::service
